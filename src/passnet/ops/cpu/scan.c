/* Fused GRU and LSTM scans: threads, and the choice of instruction set at run time. */

#include "scan.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define X86 1
#include <immintrin.h>
#else
#define X86 0
#endif

#define EXPORT __attribute__((visibility("default")))
#define INLINE __attribute__((always_inline)) static inline TARGET
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("nounroll")
/* Products and sums of one expression are fused wherever it is inlined: left to itself clang fuses
 * in one place and not in another, and bits would depend on how rows are shared among threads. */
#pragma clang fp contract(on)
#else
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED _Pragma("GCC unroll 1")
#endif

/* Up to this many rows in all, the factors are read as they are. */
#define DIRECT_ROWS 4
/* Multiplications that are worth a thread of their own: of a scan, and of a step. */
#define THREAD_WORK 2000000
#define STEP_WORK 120000
/* Threads of a team fall asleep some milliseconds after they were last used, and waking them takes
 * longer than a step: they are for streams whose last steps came faster than that. */
#define QUICK_NANOSECONDS 2000000
#define QUICK_STEPS 8

static int64_t gates_of(const scan_call *call) { return call->cell == LSTM ? 4 : 3; }

typedef int (*rows_function)(const void *prepared, int64_t first, int64_t stop);

typedef struct {
    rows_function run;
    const void *prepared;
    int64_t total, count;
    int64_t taken; /* shares, counted atomically */
    int failed;
} shares;

/* Equal shares of consecutive things; every thread takes the next until none is left. */
static void take_shares(void *given) {
    shares *of = given;
    for (;;) {
        int64_t at = __atomic_fetch_add(&of->taken, 1, __ATOMIC_RELAXED);
        if (at >= of->count) return;
        int64_t first = of->total * at / of->count, stop = of->total * (at + 1) / of->count;
        if (of->run(of->prepared, first, stop)) __atomic_store_n(&of->failed, 1, __ATOMIC_RELAXED);
    }
}

static void *run_thread(void *given) {
    take_shares(given);
    return NULL;
}

static void in_new_threads(shares *of) {
    int64_t started = 0;
    pthread_t *running = malloc((size_t)of->count * sizeof *running);
    while (running && started < of->count - 1 &&
           !pthread_create(&running[started], NULL, run_thread, of))
        started++;
    take_shares(of);
    while (started > 0) pthread_join(running[--started], NULL);
    free(running);
}

/* The calling convention of GNU OpenMP's GOMP_parallel. */
typedef void (*team_function)(void (*run)(void *), void *given, unsigned threads, unsigned flags);
static team_function team;

/* A process that was forked has the team's memory without its threads: it would wait for ever. */
static void forget_team(void) { team = NULL; }

/* Use the threads of an OpenMP runtime that this process already has: its idle threads spin for a
 * while and would keep threads of our own from the processors. */
EXPORT void passnet_use_team(team_function of) {
    static int watched;
    if (!watched) watched = !pthread_atfork(NULL, NULL, forget_team);
    team = of;
}

/* Whether a step is for a team, which alone may be asleep, or too large for what there is to do. */
static int step_takes_team(int64_t threads, int64_t most) {
    static _Thread_local int64_t last, quick;
    if (!team || threads <= 1 || most <= 1 || 2 * most < threads) return 0;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t now = at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
    quick = now - last < QUICK_NANOSECONDS ? quick + 1 : 0;
    last = now;
    return quick >= QUICK_STEPS;
}

/* `total` things shared out among threads, in at most so many shares.
 *
 * A team is always called whole, as PyTorch calls it: one that is asked for fewer ends its other
 * threads, and the next call for all has to start them again. */
static int in_threads(rows_function run, const void *prepared, int64_t total, int64_t threads,
                      int64_t most) {
    int64_t count = threads < total ? threads : total;
    if (most < count) count = most;
    if (count <= 1) return run(prepared, 0, total);
    shares of = {.run = run, .prepared = prepared, .total = total, .count = count};
    if (team)
        team(take_shares, &of, (unsigned)threads, 0);
    else
        in_new_threads(&of);
    return of.failed;
}

/* An allocator often takes a result this large fresh from the system, page by page as it is written
 * here; large pages make that several times cheaper. */
#define FRESH_BYTES (4 << 20)

static void expect_fresh(void *result, int64_t bytes) {
#if defined(MADV_HUGEPAGE)
    uintptr_t first = ((uintptr_t)result + 4095) & ~(uintptr_t)4095;
    uintptr_t stop = ((uintptr_t)result + (uintptr_t)bytes) & ~(uintptr_t)4095;
    if (result && bytes >= FRESH_BYTES) madvise((void *)first, stop - first, MADV_HUGEPAGE);
#else
    (void)result, (void)bytes;
#endif
}

#define TARGET
#define MOST_ROWS 4

#define REAL float
#define BITS uint32_t
#define LANES 4
#define IS_DOUBLE 0
#define NAME(x) x##_plain_float
#define LOAD_SOME(v, from, count) __builtin_memcpy(&v, from, (size_t)(count) * sizeof(REAL))
#define STORE_SOME(to, v, count) __builtin_memcpy(to, &v, (size_t)(count) * sizeof(REAL))
#include "kernels.h"

#define REAL double
#define BITS uint64_t
#define LANES 2
#define IS_DOUBLE 1
#define NAME(x) x##_plain_double
#define LOAD_SOME(v, from, count) __builtin_memcpy(&v, from, (size_t)(count) * sizeof(REAL))
#define STORE_SOME(to, v, count) __builtin_memcpy(to, &v, (size_t)(count) * sizeof(REAL))
#include "kernels.h"

#undef TARGET
#undef MOST_ROWS

#if X86
#define TARGET __attribute__((target("avx2,fma")))
#define MOST_ROWS 6

static const int32_t below_float[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
static const int64_t below_double[8] = {-1, -1, -1, -1};
#define FIRST_FLOATS(count) _mm256_loadu_si256((const void *)(below_float + 8 - (count)))
#define FIRST_DOUBLES(count) _mm256_loadu_si256((const void *)(below_double + 4 - (count)))

#define REAL float
#define BITS uint32_t
#define LANES 8
#define IS_DOUBLE 0
#define NAME(x) x##_avx2_float
#define LOAD_SOME(v, from, count) v = (NAME(vec))_mm256_maskload_ps(from, FIRST_FLOATS(count))
#define STORE_SOME(to, v, count) _mm256_maskstore_ps(to, FIRST_FLOATS(count), (__m256)(v))
#include "kernels.h"

#define REAL double
#define BITS uint64_t
#define LANES 4
#define IS_DOUBLE 1
#define NAME(x) x##_avx2_double
#define LOAD_SOME(v, from, count) v = (NAME(vec))_mm256_maskload_pd(from, FIRST_DOUBLES(count))
#define STORE_SOME(to, v, count) _mm256_maskstore_pd(to, FIRST_DOUBLES(count), (__m256d)(v))
#include "kernels.h"

#undef TARGET
#undef MOST_ROWS

#define TARGET __attribute__((target("avx512f,avx2,fma")))
#define MOST_ROWS 8
#define FIRST(count) ((1u << (count)) - 1)

#define REAL float
#define BITS uint32_t
#define LANES 16
#define IS_DOUBLE 0
#define NAME(x) x##_avx512_float
#define LOAD_SOME(v, from, count)                                                                \
    v = (NAME(vec))_mm512_maskz_loadu_ps((__mmask16)FIRST(count), from)
#define STORE_SOME(to, v, count)                                                                 \
    _mm512_mask_storeu_ps(to, (__mmask16)FIRST(count), (__m512)(v))
#include "kernels.h"

#define REAL double
#define BITS uint64_t
#define LANES 8
#define IS_DOUBLE 1
#define NAME(x) x##_avx512_double
#define LOAD_SOME(v, from, count)                                                                \
    v = (NAME(vec))_mm512_maskz_loadu_pd((__mmask8)FIRST(count), from)
#define STORE_SOME(to, v, count)                                                                 \
    _mm512_mask_storeu_pd(to, (__mmask8)FIRST(count), (__m512d)(v))
#include "kernels.h"
#endif

/* The widest instruction set of this machine: 0 plain, 1 AVX2, 2 AVX-512. */
EXPORT int64_t passnet_widest(void) {
#if X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma")) return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}

#ifndef PASSNET_SOURCES
#define PASSNET_SOURCES ""
#endif

/* A digest of these files, so that a library that was made of others is not used beside them. */
EXPORT const char *passnet_sources(void) {
    return PASSNET_SOURCES;
}

#if X86
#define CHOSEN(function, is_double, level)                                                       \
    ((level) == 2   ? (is_double) ? function##_avx512_double : function##_avx512_float           \
     : (level) == 1 ? (is_double) ? function##_avx2_double : function##_avx2_float               \
     : (is_double)  ? function##_plain_double : function##_plain_float)
#else
#define CHOSEN(function, is_double, level)                                                       \
    ((void)(level), (is_double) ? function##_plain_double : function##_plain_float)
#endif

/* These return 0 when done, 1 when memory ran out; `level` is at most what passnet_widest says. */
EXPORT int64_t passnet_scan(const scan_call *call, int64_t backward, int64_t level) {
    return CHOSEN(run, call->is_double, level)(call, (int)backward);
}

/* `cell` has its parameters, one step, and none of the tensors that change. */
EXPORT int64_t passnet_step(const scan_call *cell, int64_t level, const step_tensors *of) {
    return CHOSEN(run_step, cell->is_double, level)(cell, of);
}

/* Behind a backward scan of this call, whose factors are low-rank. */
EXPORT int64_t passnet_factor_gradients(const scan_call *call, const factor_gradients *to,
                                        int64_t level) {
    return CHOSEN(run_factors, call->is_double, level)(call, to);
}

/* Of matrices [G, n, m] and biases [G, n], or NULL, that features went through; of the call this
 * reads the sizes, the input and grad_drive. */
EXPORT int64_t passnet_input_gradients(const scan_call *call, void *grad_weight, void *grad_bias,
                                       int64_t level) {
    return CHOSEN(run_inputs, call->is_double, level)(call, grad_weight, grad_bias);
}

/* Of the features [T, B, m] themselves; of the call this reads the sizes, the matrices and
 * grad_drive. */
EXPORT int64_t passnet_features_gradient(const scan_call *call, void *grad_input, int64_t level) {
    return CHOSEN(run_features, call->is_double, level)(call, grad_input);
}
