// Loads a program and calls it from C++ without Python: main FILE.pdx FUNCTION NUMBER...
// The function takes tensors of float32 with one axis and returns one. Each of them gets the numbers; the result is printed.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "pydispatch/standalone.h"

namespace {

const pyd_api_t& Table() {
  static const pyd_api_t table = [] {
    pyd_api_t filled;
    pyd_standalone_fill(&filled);
    return filled;
  }();
  return table;
}

void Check(pyd_status_t status) {
  if (pyd_ok(status)) return;
  const std::string text = Table().status_text(status);
  Table().status_free(status);
  throw std::runtime_error(text);
}

struct Release {
  void operator()(pyd_api_device_t* device) const { Table().device_release(device); }
  void operator()(pyd_api_program_t* program) const { Table().program_release(program); }
  void operator()(pyd_api_call_t* call) const { Table().call_release(call); }
};

template <typename T>
using Owned = std::unique_ptr<T, Release>;

std::vector<float> Call(const char* path, const char* name, const std::vector<float>& numbers) {
  const pyd_api_t& pd = Table();
  pyd_api_device_t* device = nullptr;
  Check(pd.device_open("cpu", &device));
  const Owned<pyd_api_device_t> owned_device(device);
  pyd_api_program_t* program = nullptr;
  Check(pd.program_load_file(device, path, &program));
  const Owned<pyd_api_program_t> owned_program(program);
  const pyd_api_function_t* function = nullptr;
  Check(pd.program_find(program, name, &function));
  const std::vector<int64_t> sizes(function->dims_count, static_cast<int64_t>(numbers.size()));
  pyd_api_call_t* call = nullptr;
  Check(pd.call_prepare(function, sizes.data(), function->dims_count, nullptr, 0, &call));
  const Owned<pyd_api_call_t> owned_call(call);
  for (uint32_t i = 0; i < function->argument_count; ++i) {
    Check(pd.call_bind_argument(call, i, numbers.data(), numbers.size() * sizeof(float)));
  }
  std::vector<float> result(pd.call_result_bytes(call, 0) / sizeof(float));
  Check(pd.call_bind_result(call, 0, result.data(), result.size() * sizeof(float)));
  Check(pd.call_run(call));
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "main FILE.pdx FUNCTION NUMBER...\n";
    return 2;
  }
  std::vector<float> numbers;
  for (int i = 3; i < argc; ++i) numbers.push_back(std::strtof(argv[i], nullptr));
  try {
    for (const float value : Call(argv[1], argv[2], numbers)) std::cout << value << ' ';
    std::cout << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
