// The artifact reader on any bytes: it never reads outside them, and what it accepts keeps the promises of artifact.h.
// links: base artifact
#include <stdlib.h>
#include <string.h>

#include "pydispatch/artifact.h"

static void require(bool condition) {
  if (!condition) abort();
}

static void check_member(const pyd_artifact_t* artifact, uint32_t index, pyd_span_t file, const uint8_t** end) {
  const pyd_artifact_member_t* member = pyd_artifact_member(artifact, index);
  require(member->name_length > 0 && (const uint8_t*)member->name >= file.data &&
          (const uint8_t*)member->name + member->name_length <= file.data + file.size);
  require(member->data.data >= *end && (size_t)(member->data.data - file.data) % 64 == 0);
  require(member->data.size <= (size_t)(file.data + file.size - member->data.data));
  *end = member->data.data + member->data.size;
  require(pyd_artifact_find(artifact, member->name, member->name_length) == member);  // so no name is there twice
  pyd_status_t status = pyd_artifact_verify(member);
  require(pyd_ok(status) == (pyd_crc32(0, member->data.data, member->data.size) == member->crc32));
  pyd_status_free(status);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pyd_artifact_t* artifact = NULL;
  pyd_span_t file = {data, size};
  pyd_status_t status = pyd_artifact_open(file, &artifact);
  require(pyd_ok(status) == (artifact != NULL));
  if (artifact) {
    const uint8_t* end = data;
    for (uint32_t i = 0; i < pyd_artifact_member_count(artifact); ++i) check_member(artifact, i, file, &end);
    require(pyd_artifact_member(artifact, pyd_artifact_member_count(artifact)) == NULL);
  } else {
    require(pyd_status_code(status) == PYD_CODE_CORRUPT && pyd_status_text(status)[0] != 0);
  }
  pyd_status_free(status);
  pyd_artifact_free(artifact);
  return 0;
}
