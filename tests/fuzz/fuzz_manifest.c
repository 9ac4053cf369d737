// The manifest on any bytes: nothing outside them is read, and what is accepted keeps the promises of manifest.h.
// links: base platform artifact
#include <stdlib.h>
#include <string.h>

#include "pydispatch/manifest.h"

static void require(bool condition) {
  if (!condition) abort();
}

static void use(pyd_string_t text, const pyd_manifest_t* manifest, size_t size) {
  require(text.length == 0 || (text.data >= manifest->text && text.data + text.length <= manifest->text + size));
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pyd_manifest_t m;
  pyd_status_t status = pyd_manifest_read((pyd_span_t){data, size}, &m);
  if (!pyd_ok(status)) {
    require(!m.text && !m.executables && !m.functions && pyd_status_text(status)[0]);
    pyd_status_free(status);
    return 0;
  }
  uint32_t variants = 0;
  for (uint32_t i = 0; i < m.executable_count; ++i) {
    use(m.executables[i].name, &m, size);
    require(m.executables[i].first_variant == variants);
    variants += m.executables[i].variant_count;
  }
  require(variants == m.variant_count);
  for (uint32_t i = 0; i < m.variant_count; ++i) {
    const pyd_manifest_variant_t* v = &m.variants[i];
    use(v->name, &m, size), use(v->member, &m, size), use(v->format, &m, size);
    require(v->alignment && v->alignment <= PYD_POOL_ALIGNMENT && !(v->alignment & (v->alignment - 1)));
    require((uint64_t)v->first_requirement + v->requirement_count <= m.requirement_count);
    require((uint64_t)v->first_contract + v->contract_count <= m.contract_count);
  }
  for (uint32_t i = 0; i < m.requirement_count; ++i) use(m.requirements[i], &m, size);
  for (uint32_t i = 0; i < m.function_count; ++i) {
    use(m.functions[i], &m, size);
    require(pyd_manifest_has_function(&m, m.functions[i]));
    if (i == 0) continue;
    const pyd_string_t *a = &m.functions[i - 1], *b = &m.functions[i];
    int order = memcmp(a->data, b->data, a->length < b->length ? a->length : b->length);
    require(order < 0 || (order == 0 && a->length < b->length));
  }
  pyd_manifest_free(&m);
  return 0;
}
