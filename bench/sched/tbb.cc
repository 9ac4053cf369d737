// Contender of rounds.c: tbb::parallel_for in an arena of its own, with the automatic, or the static partitioner.
#include <oneapi/tbb.h>

#include <memory>
#include <string>

#include "contender.h"

namespace {
std::unique_ptr<oneapi::tbb::global_control> limit;
std::unique_ptr<oneapi::tbb::task_arena> arena;
bool is_static;
}  // namespace

void contender_start(uint32_t workers, const char* variant) {
  using oneapi::tbb::global_control;
  limit = std::make_unique<global_control>(global_control::max_allowed_parallelism, workers);
  arena = std::make_unique<oneapi::tbb::task_arena>(static_cast<int>(workers));
  is_static = std::string(variant) == "static";
}

void contender_prepare(uint32_t) {}

void contender_run(kernel_t kernel, void* self, uint64_t count) {
  using range_t = oneapi::tbb::blocked_range<uint64_t>;
  auto body = [=](const range_t& range) {
    for (uint64_t i = range.begin(); i != range.end(); ++i) kernel(self, i);
  };
  arena->execute([&] {
    if (is_static) {
      oneapi::tbb::parallel_for(range_t(0, count), body, oneapi::tbb::static_partitioner());
    } else {
      oneapi::tbb::parallel_for(range_t(0, count), body);
    }
  });
}
