// The lines that run.py reads: a measured value, with tabs between its fields.
#ifndef PYD_BENCH_CORE_ROWS_H_
#define PYD_BENCH_CORE_ROWS_H_

#include <stdint.h>
#include <stdio.h>

// Prints a measured value. |name|: what was measured. |size|: of what. |workers|: threads that took part. |unit|: "s",
// "/s", or "1" for a ratio. |least| and |most|: the range of the single measurements.
static inline void row(const char* name, const char* size, uint32_t workers, double value, double least, double most,
                       const char* unit) {
  printf("%s\t%s\t%u\t%.9g\t%.9g\t%.9g\t%s\n", name, size, workers, value, least, most, unit);
  fflush(stdout);
}

#endif  // PYD_BENCH_CORE_ROWS_H_
