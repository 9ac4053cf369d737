// The lines that run.py reads: a measured value, with tabs between its fields.
#ifndef PYD_BENCH_CORE_ROWS_H_
#define PYD_BENCH_CORE_ROWS_H_

#include <stdint.h>
#include <stdio.h>

// |unit|: "s", "/s" or "1". |least| and |most|: between which values it varied.
static inline void row(const char* name, const char* size, uint32_t workers, double value, double least, double most,
                       const char* unit) {
  printf("%s\t%s\t%u\t%.9g\t%.9g\t%.9g\t%s\n", name, size, workers, value, least, most, unit);
  fflush(stdout);
}

#endif  // PYD_BENCH_CORE_ROWS_H_
