// Measures the peak rates of this machine: multiply-adds of f32 and dot products of bytes in registers, and the bandwidth
// of a triad (as in STREAM).
//
//   roof flops THREADS          -> GFLOP/s
//   roof dots THREADS           -> GOP/s of products of bytes and their sums (vpdpbusd), 0 without the instruction
//   roof triad THREADS BYTES    -> GB/s of a[i] = b[i] + s * c[i] over arrays of BYTES in total
#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SUMS = 24,           // independent accumulators: enough to hide the latency, and few enough for 32 registers
    MOST_THREADS = 256,
    ROUNDS = 7,          // the shortest counts
};
typedef float vec __attribute__((vector_size(64)));

// Returns seconds.
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    pthread_barrier_t *start;  // all threads begin a round together
    long repeats;              // of the loop in a round
    size_t count;              // elements of each array of this thread; 0: multiply-adds or dot products
    int is_dots;               // with a count of 0: dot products of bytes
    float *a, *b, *c;
    float used;  // sum of results, so that computing them is not optimized away
    double begun[ROUNDS], ended[ROUNDS];
} work_t;

// Computes SUMS multiply-adds of 16 lanes in each of |repeats| steps; returns one of the lanes.
static float multiply_adds(long repeats) {
    vec sums[SUMS], x, y;
    for (int lane = 0; lane < 16; ++lane) {
        x[lane] = 0.999f;
        y[lane] = 0.001f;
    }
    for (int i = 0; i < SUMS; ++i) sums[i] = y * (float)i;
    for (long r = 0; r < repeats; ++r) {
#pragma GCC unroll 24
        for (int i = 0; i < SUMS; ++i) sums[i] = sums[i] * x + y;
    }
    vec total = sums[0];
    for (int i = 1; i < SUMS; ++i) total += sums[i];
    return total[3];
}

#ifdef __AVX512VNNI__
enum { DOT_OPERATIONS = 2 * 64 };  // of one vpdpbusd: 64 products and additions

// Computes SUMS dot products in each of |repeats| steps; returns their total.
// Each sum is a variable: gcc stores an array of them to memory in every step.
static float dot_products(long repeats) {
    __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5), zero = _mm512_setzero_si512();
#define FOR_SUMS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) \
    DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
#define START(i) __m512i sum##i = zero;
#define DOT(i) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(sum##i) : "v"(x), "v"(y));
#define ADD(i) total = _mm512_add_epi32(total, sum##i);
    FOR_SUMS(START)
    for (long r = 0; r < repeats; ++r) {
        FOR_SUMS(DOT)
    }
    __m512i total = zero;
    FOR_SUMS(ADD)
    return (float)_mm512_reduce_add_epi32(total);
}
#else
enum { DOT_OPERATIONS = 0 };

static float dot_products(long repeats) {
    return (float)repeats;
}
#endif

// Computes a[i] = b[i] + 0.5 * c[i] for all i, |repeats| times; returns one of the elements.
static float triad(const work_t *w) {
    float *restrict a = w->a;
    const float *restrict b = w->b, *restrict c = w->c;
    for (long r = 0; r < w->repeats; ++r) {
        for (size_t i = 0; i < w->count; ++i) a[i] = b[i] + 0.5f * c[i];
        __asm__ volatile("" ::: "memory");  // keeps the compiler from merging the repeats
    }
    return a[w->count / 2];
}

// Runs all rounds of one thread; |argument|: its work_t.
static void *run(void *argument) {
    work_t *w = argument;
    for (int round = 0; round < ROUNDS; ++round) {
        pthread_barrier_wait(w->start);
        w->begun[round] = now();
        if (w->count) w->used += triad(w);
        else w->used += w->is_dots ? dot_products(w->repeats) : multiply_adds(w->repeats);
        w->ended[round] = now();
    }
    return NULL;
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    int is_flops = !strcmp(kind, "flops"), is_dots = !strcmp(kind, "dots"), is_triad = !strcmp(kind, "triad");
    if (!(is_flops || is_dots || is_triad) || argc < (is_triad ? 4 : 3)) {
        fprintf(stderr, "usage: roof flops THREADS | roof dots THREADS | roof triad THREADS BYTES\n");
        return 2;
    }
    int threads = atoi(argv[2]);
    if (threads < 1 || threads > MOST_THREADS) return 2;
    // Elements of each thread's arrays: three arrays of 4 bytes per element, in whole cache lines of 16 elements.
    size_t count = argc > 3 ? (size_t)atoll(argv[3]) / 12 / (size_t)threads / 16 * 16 : 0;
    // A round of a triad moves about 200 MB in each thread, at least the arrays once.
    long repeats = count ? (long)(2e8 / 12 / (double)count) + 1 : 2000000;
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    pthread_t ids[MOST_THREADS];
    work_t work[MOST_THREADS];
    for (int t = 0; t < threads; ++t) {
        float *arrays[3] = {NULL, NULL, NULL};
        for (int i = 0; i < 3 && count; ++i) {
            arrays[i] = aligned_alloc(4096, (count * 4 + 4095) / 4096 * 4096);
            if (arrays[i] == NULL) return 1;
            for (size_t j = 0; j < count; ++j) arrays[i][j] = (float)i;
        }
        work[t] = (work_t){
            .start = &start, .repeats = repeats, .count = count, .is_dots = is_dots, .a = arrays[0], .b = arrays[1], .c = arrays[2]
        };
        if (pthread_create(&ids[t], NULL, run, &work[t])) return 1;
    }
    for (int t = 0; t < threads; ++t) pthread_join(ids[t], NULL);
    double least = 1e30;  // seconds of the shortest round, from the first thread's begin to the last thread's end
    for (int round = 0; round < ROUNDS; ++round) {
        double begun = work[0].begun[round], ended = work[0].ended[round];
        for (int t = 1; t < threads; ++t) {
            begun = work[t].begun[round] < begun ? work[t].begun[round] : begun;
            ended = work[t].ended[round] > ended ? work[t].ended[round] : ended;
        }
        least = ended - begun < least ? ended - begun : least;
    }
    double per_sum = is_dots ? DOT_OPERATIONS : 2.0 * 16;  // a multiplication and an addition in 16 lanes
    // Bytes or operations of one repeat of one thread; a triad moves three elements of 4 bytes.
    double per_repeat = count ? 12.0 * (double)count : per_sum * SUMS;
    printf("%.4g\n", per_repeat * (double)repeats * threads / least * 1e-9);
    return 0;
}
