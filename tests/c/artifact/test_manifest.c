// links: base platform artifact
// flags: -Wl,--wrap=malloc,--wrap=realloc
// The manifest as C reads it: what is taken from it, and what is refused.
#include "pydispatch/manifest.h"

#include "program/builder.h"
#include "standalone/no_memory.h"

#define VARIANT "\"name\":\"v\",\"member\":\"m\",\"format\":\"f\",\"alignment\":64,\"requires\":[],\"imports\":[]"
#define HEADER "\"pydispatch\":{\"format\":1,\"version\":\"1\"}"
#define EXECUTABLES(variant) "\"executables\":[{\"name\":\"e\",\"exports\":[\"x\"],\"variants\":[{" variant "}]}]"
#define WITH(variant) "{" HEADER ",\"functions\":[],\"constants\":[]," EXECUTABLES(variant) "}"
#define FUNCTIONS(functions) "{" HEADER ",\"executables\":[],\"constants\":[],\"functions\":[" functions "]}"
#define FUNCTION(name) "{\"name\":\"" name "\",\"signature\":\"\"}"
#define INPUT(value) FUNCTIONS("{\"name\":\"f\",\"signature\":\"\",\"inputs\":[" value "]}")
#define CONSTANT(constant) "{" HEADER ",\"executables\":[],\"functions\":[],\"constants\":[" constant "]}"

static pyd_status_t read(const char* text, pyd_manifest_t* out_manifest) {
  return pyd_manifest_read((pyd_span_t){(const uint8_t*)text, strlen(text)}, out_manifest);
}

static bool is(pyd_string_t text, const char* expected) {
  return text.length == strlen(expected) && !memcmp(text.data, expected, text.length);
}

static void test_taken(void) {
  pyd_manifest_t m;
  CHECK_OK(read(
      " { \"more\" : [1, -2.5e+3, 0, {\"a\":[]}, true, false, null, 1E5, \"\\u0041\\u00Fe\\u20ac\\ue000\"],\n\"executables\":[{\"exports\":[\"x\"],\"name\":\"\\u00e9\\ud83d\\ude00\\n\\\"\","
      "\"variants\":[{" VARIANT
      ",\"contracts\":[0,null,7],\"dynamic\":true,\"flops\":[null,[\"f32\",[1]]],\"calls\":[{}],\"warnings\":[\"w\"],"
      "\"ptx\":{},\"spirv\":{\"a\":1},\"wgsl\":{}},{\"requires\":[\"avx2\",\"fma\"],\"alignment\":1,"
      "\"format\":\"\",\"member\":\"\",\"name\":\"w\",\"contracts\":[],\"imports\":[\"a\",\"?b\"]}]},"
      "{\"variants\":[],\"exports\":[],\"name\":\"\"}],\"constants\":[{\"member\":\"c\",\"dtype\":\"<f4\",\"shape\":[2,3]}],"
      "\"functions\":[" FUNCTION("g") "," FUNCTION(
          "ff") ",{\"name\":\"f\",\"signature\":\"\",\"inputs\":[{\"name\":\"\","
                "\"type\":\"f32\",\"shape\":[2,\"n\"]},{\"name\":\"b\",\"type\":\"i1\"}],\"outputs\":[]}]," HEADER
                "} \r\n\t",
      &m));
  CHECK(m.function_count == 3 && is(m.functions[0], "f") && is(m.functions[1], "ff") && is(m.functions[2], "g"));
  CHECK(pyd_manifest_has_function(&m, (pyd_string_t){"ff", 2}));
  CHECK(!pyd_manifest_has_function(&m, (pyd_string_t){"fg", 2}) &&
        !pyd_manifest_has_function(&m, (pyd_string_t){"", 0}));
  CHECK(m.executables[0].export_count == 1 && m.executables[1].export_count == 0);
  CHECK(m.variants[0].import_count == 0 && m.variants[1].import_count == 2);
  CHECK(m.executable_count == 2 && m.variant_count == 2 && m.contract_count == 3 && m.requirement_count == 2);
  CHECK(is(m.executables[0].name, "\xC3\xA9\xF0\x9F\x98\x80\n\"") && m.executables[0].variant_count == 2);
  CHECK(m.executables[1].first_variant == 2 && m.executables[1].variant_count == 0);
  CHECK(is(m.variants[0].name, "v") && is(m.variants[0].member, "m") && is(m.variants[0].format, "f"));
  CHECK(m.variants[0].alignment == 64 && m.variants[0].is_dynamic && m.variants[0].has_contracts);
  CHECK(m.contracts[0] == 0 && m.contracts[1] == PYD_PROGRAM_NONE && m.contracts[2] == 7);
  CHECK(m.variants[1].has_contracts && m.variants[1].contract_count == 0 && !m.variants[1].is_dynamic);
  CHECK(m.variants[1].first_requirement == 0 && is(m.requirements[1], "fma"));
  pyd_manifest_free(&m);
}

static void test_refused(void) {
  static const char* const kCases[][2] = {
      {"", "byte 0: expected an object"},
      {"[]", "byte 0: expected an object"},
      {"{}", "expected an object with pydispatch, executables, functions and constants"},
      {"{" HEADER ",\"executables\":[],\"functions\":[]}", "functions and constants"},
      {"{" HEADER ",\"executables\":[],\"constants\":[]}", "functions and constants"},
      {"{\"pydispatch\":{\"format\":2}}", "format 1"},
      {"{\"pydispatch\":{\"format\":1}}", "a version"},
      {"{\"pydispatch\":{\"format\":1,\"version\":1}}", "a string"},
      {WITH(VARIANT) " x", "nothing after the value"},
      {"{" HEADER "," HEADER "}", "no member twice"},
      {"{" HEADER ",\"executables\":[1]}", "an object"},
      {"{" HEADER ",\"executables\":[{\"name\":\"e\"}]}", "an executable with name, exports and variants"},
      {"{" HEADER ",\"executables\":[{\"name\":\"e\",\"variants\":[]}]}",
       "an executable with name, exports and variants"},
      {"{" HEADER ",\"executables\":[{\"exports\":[1]}]}", "a string"},
      {FUNCTIONS("1"), "an object"},
      {FUNCTIONS("{\"name\":\"f\"}"), "a function with name and signature"},
      {FUNCTIONS("{\"signature\":\"\"}"), "a function with name and signature"},
      {FUNCTIONS("{\"signature\":1}"), "a string"},
      {FUNCTIONS("{\"name\":\"f\",\"name\":\"f\"}"), "no member twice"},
      {FUNCTIONS(FUNCTION("f") "," FUNCTION("g") "," FUNCTION("f")), "functions of different names"},
      {INPUT("1"), "an object"},
      {INPUT("{\"name\":\"\"}"), "a value with name and type"},
      {INPUT("{\"type\":\"f32\"}"), "a value with name and type"},
      {INPUT("{\"name\":\"\",\"type\":\"\"}"), "a value with name and type"},
      {INPUT("{\"name\":\"\",\"type\":1}"), "a string"},
      {INPUT("{\"shape\":1}"), "an array"},
      {INPUT("{\"shape\":[-1]}"), "a whole number"},
      {INPUT("{\"shape\":[9223372036854775808]}"), "below 2^63"},
      {INPUT("{\"shape\":[\"\"]}"), "the name of a size"},
      {INPUT("{\"shape\":[null]}"), "a whole number"},
      {FUNCTIONS("{\"outputs\":{}}"), "an array"},
      {CONSTANT("1"), "an object"},
      {CONSTANT("{\"member\":\"\",\"dtype\":\"\"}"), "a constant with member, dtype and shape"},
      {CONSTANT("{\"member\":1}"), "a string"},
      {CONSTANT("{\"dtype\":null}"), "a string"},
      {CONSTANT("{\"shape\":[\"n\"]}"), "a whole number"},
      {"{\"a\":1,}", "a string"},
      {"{\"a\" 1}", "':'"},
      {"{\"a\":1 \"b\":2}", "',' or the end"},
      {"{\"a\":[1,]}", "a digit"},
      {"{\"a\":01}", "',' or the end"},
      {"{\"a\":+1}", "a digit"},
      {"{\"a\":1.}", "a digit"},
      {"{\"a\":1e}", "a digit"},
      {"{\"a\":NaN}", "a digit"},
      {"{\"a\":nul}", "null"},
      {"{\"a\":tru}", "true or false"},
      {"{\"a\":\"\n\"}", "the end of a string"},
      {"{\"a\":\"\x80\"}", "UTF-8"},
      {"{\"a\":\"b\xC3\"}", "UTF-8"},
      {"{\"a\":\"\\n\xED\xA0\x80\"}", "UTF-8"},
      {"{\"a\":\"\xC0\xAF\"}", "UTF-8"},
      {"\xEF\xBB\xBF{}", "an object"},
      {"{\"a\":\"\\x\"}", "an escape"},
      {"{\"a\":\"\\u00g0\"}", "four hexadecimal digits"},
      {"{\"a\":\"\\u00 0\"}", "four hexadecimal digits"},
      {"{\"a\":\"\\u00:0\"}", "four hexadecimal digits"},
      {"{\"a\":\"\\ud800\\u00g0\"}", "four hexadecimal digits"},
      {"{\"a\":\"\\ud800\\ue000\"}", "the second half"},
      {"{\"a\":\"\\", "an escape"},
      {"{\"a\":\"\\u0000\"}", "a character after"},
      {"{\"a\":\"\\udc00\"}", "a character after"},
      {"{\"a\":\"\\ud800x\"}", "the second half"},
      {"{\"a\":\"\\ud800\\u0041\"}", "the second half"},
      {"{\"a", "the end of a string"},
      {WITH(VARIANT ",\"alignment\":1"), "no member twice"},
      {WITH("\"name\":\"v\""), "a variant with name"},
      {WITH("\"alignment\":0"), "a power of two"},
      {WITH("\"alignment\":48"), "a power of two"},
      {WITH("\"alignment\":128"), "a power of two up to 64"},
      {WITH("\"alignment\":1.0"), "a whole number below"},
      {WITH("\"alignment\":1e1"), "a whole number below"},
      {WITH("\"alignment\":-1"), "a whole number"},
      {WITH("\"alignment\":9223372036854775808"), "below 2^63"},
      {WITH("\"requires\":[1]"), "a string"},
      {WITH("\"requires\":\"x\""), "an array"},
      {WITH("\"contracts\":[4294967295]"), "below 2^32 - 1"},
      {WITH("\"contracts\":[\"a\"]"), "a whole number"},
      {WITH("\"dynamic\":1"), "true or false"},
      {WITH("\"name\":null"), "a string"},
      {WITH("\"name\":\"v\",\"member\":\"m\",\"format\":\"f\",\"alignment\":64,\"requires\":[]"),
       "requires and imports"},
      {WITH("\"imports\":[1]"), "a string"},
      {WITH("\"imports\":null"), "an array"},
      {WITH("\"flops\":[1]"), "an array"},
      {WITH("\"flops\":1"), "an array"},
      {WITH("\"calls\":{}"), "an array"},
      {WITH("\"warnings\":{}"), "an array"},
      {WITH("\"ptx\":[]"), "an object"},
      {WITH("\"spirv\":[]"), "an object"},
      {WITH("\"wgsl\":null"), "an object"},
      {WITH("\"flops\":[],\"flops\":[]"), "no member twice"},
  };
  pyd_manifest_t m;
  for (size_t i = 0; i < sizeof(kCases) / sizeof(*kCases); ++i) {
    CHECK_REFUSED(read(kCases[i][0], &m), CORRUPT, kCases[i][1]);
    CHECK(!m.text && !m.executables && !m.variants && !m.requirements && !m.contracts && !m.variant_count);
    CHECK(!m.functions && !m.function_count);
  }
  char digits[5000] = "{\"a\":";
  memset(digits + 5, '1', sizeof(digits) - 7);
  digits[sizeof(digits) - 2] = '}';
  CHECK_REFUSED(read(digits, &m), CORRUPT, "a shorter number");
  char deep[400] = "{\"a\":";
  memset(deep + 5, '[', sizeof(deep) - 6);
  CHECK_REFUSED(read(deep, &m), CORRUPT, "less nesting");
}

// Each prefix of a manifest is refused, and nothing outside it is read.
static void test_prefixes(void) {
  static const char kWhole[] =
      "{" HEADER
      ",\"functions\":[{\"name\":\"\xC3\xA9\",\"signature\":\"\",\"outputs\":[{\"name\":\"\",\"type\":\"f32\","
      "\"shape\":[\"n\"]}]}],\"constants\":[]," EXECUTABLES(VARIANT ",\"contracts\":[0,null]") "}";
  pyd_manifest_t m;
  for (size_t size = 0; size < sizeof(kWhole) - 1; ++size) {
    uint8_t* copy = malloc(size + 1);
    CHECK(copy);
    memcpy(copy, kWhole, size);
    CHECK_REFUSED(pyd_manifest_read((pyd_span_t){copy, size}, &m), CORRUPT, "manifest.json, byte ");
    free(copy);
  }
  CHECK_OK(read(kWhole, &m));
  pyd_manifest_free(&m);
}

// Each allocation fails in turn.
static void test_no_memory(void) {
  pyd_manifest_t m;
  bool is_done = false;
  for (int64_t allowed = 0; !is_done; ++allowed) {
    g_allowed = allowed;
    pyd_status_t status =
        read(WITH(VARIANT ",\"contracts\":[0,null]},{\"name\":\"w\",\"member\":\"m\",\"format\":\"f\",\"alignment\":64,"
                          "\"imports\":[],\"requires\":[\"avx2\",\"fma\",\"bmi2\"]"),
             &m);
    g_allowed = INT64_MAX;
    is_done = pyd_ok(status);
    if (is_done) {
      pyd_manifest_free(&m);
    } else {
      CHECK(allowed < 20 && pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY);
      CHECK(!m.text && !m.executables && !m.variants && !m.requirements && !m.contracts);
    }
    pyd_status_free(status);
  }
}

int main(void) {
  test_taken();
  test_refused();
  test_prefixes();
  test_no_memory();
  return 0;
}
