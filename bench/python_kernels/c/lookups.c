// Kernels that read or write by indices. Each array is passed as its address and its sizes.
// Sizes that repeat those of an earlier array, such as n2 and same, are not read.
#include <stdint.h>
#include <string.h>

// The mean of the rows of a bag, whose numbers begin at starts[bag] and end before the next bag; 0 if it is empty.
void embedding_bag(const float* table, int64_t rows, int64_t n, const int64_t* numbers, int64_t count,
                   const int64_t* starts, int64_t bags, float* restrict y, int64_t bags2, int64_t n2) {
#pragma omp parallel for
  for (int64_t bag = 0; bag < bags; ++bag) {
    int64_t begin = starts[bag], end = bag + 1 < bags ? starts[bag + 1] : count;
    float* row = y + bag * n;
    memset(row, 0, sizeof(float) * (size_t)n);
    for (int64_t at = begin; at < end; ++at) {
      for (int64_t j = 0; j < n; ++j) row[j] += table[numbers[at] * n + j];
    }
    float size = (float)(end > begin ? end - begin : 1);
    for (int64_t j = 0; j < n; ++j) row[j] /= size;
  }
}

// y[i] = table[numbers[i]], zeros for a number outside of the table.
void gathered_rows(const float* table, int64_t rows, int64_t n, const int32_t* numbers, int64_t count,
                   float* restrict y, int64_t count2, int64_t n2) {
#pragma omp parallel for
  for (int64_t i = 0; i < count; ++i) {
    if (numbers[i] >= 0 && numbers[i] < rows) {
      memcpy(y + i * n, table + numbers[i] * n, sizeof(float) * (size_t)n);
    } else {
      memset(y + i * n, 0, sizeof(float) * (size_t)n);
    }
  }
}

// Adds dy[i] to dtable[numbers[i]]. Each thread adds to columns of its own, which needs no atomic operations.
void scattered_rows(const float* dy, int64_t count, int64_t n, const int32_t* numbers, int64_t count2,
                    float* restrict dtable, int64_t rows, int64_t n2) {
#pragma omp parallel for
  for (int64_t begin = 0; begin < n; begin += 64) {
    int64_t end = begin + 64 < n ? begin + 64 : n;
    for (int64_t i = 0; i < count; ++i) {
      if (numbers[i] < 0 || numbers[i] >= rows) continue;
      for (int64_t j = begin; j < end; ++j) dtable[numbers[i] * n + j] += dy[i * n + j];
    }
  }
}

// y = a times b for a sparse matrix in CSR: elements of row r begin at starts[r] and end before starts[r + 1].
void sparse_product(const int32_t* starts, int64_t ends, const int32_t* columns, int64_t count, const float* values,
                    int64_t count2, const float* b, int64_t k, int64_t n, float* restrict y, int64_t m, int64_t n2) {
#pragma omp parallel for
  for (int64_t row = 0; row < m; ++row) {
    float* to = y + row * n;
    memset(to, 0, sizeof(float) * (size_t)n);
    for (int32_t at = starts[row]; at < starts[row + 1]; ++at) {
      const float* from = b + columns[at] * n;
      for (int64_t j = 0; j < n; ++j) to[j] += values[at] * from[j];
    }
  }
}

// The root of a vertex's tree, which is its own parent; other threads may join trees meanwhile.
static int32_t root_of(const int32_t* parents, int32_t vertex) {
  int32_t above = __atomic_load_n(parents + vertex, __ATOMIC_RELAXED);
  while (above != vertex) {
    vertex = above;
    above = __atomic_load_n(parents + vertex, __ATOMIC_RELAXED);
  }
  return vertex;
}

// Joins the trees of both ends of each edge: the higher root becomes a child of the lower one, so that no cycle arises.
// Another thread may have joined the higher root before: then both roots are searched again.
void connected_components(const int32_t* edges, int64_t m, int64_t two, int32_t* parents, int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0; i < m; ++i) {
    int32_t a = root_of(parents, edges[2 * i]), b = root_of(parents, edges[2 * i + 1]);
    while (a != b) {
      int32_t low = a < b ? a : b, high = a < b ? b : a, seen = high;
      if (__atomic_compare_exchange_n(parents + high, &seen, low, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
      a = root_of(parents, seen), b = root_of(parents, low);
    }
  }
}
