// What this machine can do at most: multiply-adds of f32 in registers, and the bandwidth of a triad.
//
//   roof flops THREADS          -> GFLOP/s
//   roof triad THREADS BYTES    -> GB/s of a[i] = b[i] + s * c[i] over arrays of BYTES in total
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUMS = 24, MOST_THREADS = 256, ROUNDS = 7 };
typedef float vec __attribute__((vector_size(64)));

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    pthread_barrier_t *start;
    long repeats;
    size_t count;  // elements of each array of this thread; 0: multiply-adds
    float *a, *b, *c;
    float seen;
    double begun[ROUNDS], ended[ROUNDS];
} work_t;

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

static float triad(const work_t *w) {
    float *restrict a = w->a;
    const float *restrict b = w->b, *restrict c = w->c;
    for (long r = 0; r < w->repeats; ++r) {
        for (size_t i = 0; i < w->count; ++i) a[i] = b[i] + 0.5f * c[i];
        __asm__ volatile("" ::: "memory");
    }
    return a[w->count / 2];
}

static void *run(void *argument) {
    work_t *w = argument;
    for (int round = 0; round < ROUNDS; ++round) {
        pthread_barrier_wait(w->start);
        w->begun[round] = now();
        w->seen += w->count ? triad(w) : multiply_adds(w->repeats);
        w->ended[round] = now();
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3 || (strcmp(argv[1], "flops") && (strcmp(argv[1], "triad") || argc < 4))) {
        fprintf(stderr, "usage: roof flops THREADS | roof triad THREADS BYTES\n");
        return 2;
    }
    int threads = atoi(argv[2]);
    if (threads < 1 || threads > MOST_THREADS) return 2;
    size_t count = argc > 3 ? (size_t)atoll(argv[3]) / 12 / (size_t)threads / 16 * 16 : 0;
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
            .start = &start, .repeats = repeats, .count = count, .a = arrays[0], .b = arrays[1], .c = arrays[2]
        };
        if (pthread_create(&ids[t], NULL, run, &work[t])) return 1;
    }
    for (int t = 0; t < threads; ++t) pthread_join(ids[t], NULL);
    double least = 1e30;
    for (int round = 0; round < ROUNDS; ++round) {
        double begun = work[0].begun[round], ended = work[0].ended[round];
        for (int t = 1; t < threads; ++t) {
            begun = work[t].begun[round] < begun ? work[t].begun[round] : begun;
            ended = work[t].ended[round] > ended ? work[t].ended[round] : ended;
        }
        least = ended - begun < least ? ended - begun : least;
    }
    double per_round = count ? 12.0 * (double)count : 2.0 * 16 * SUMS;
    printf("%.4g\n", per_round * (double)repeats * threads / least * 1e-9);
    return 0;
}
