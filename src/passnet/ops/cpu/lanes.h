/* Vectors of LANES numbers of type REAL, and the two squashing functions over them.
 *
 * Included once for each element type and instruction set, which define REAL, LANES, BITS (the
 * unsigned integer of the same size), IS_DOUBLE, NAME(x), TARGET, LOAD_SOME and STORE_SOME.
 */

typedef REAL NAME(vec) __attribute__((vector_size(LANES * sizeof(REAL))));
typedef BITS NAME(bits) __attribute__((vector_size(LANES * sizeof(REAL))));
#define vec NAME(vec)
#define bits NAME(bits)

#if IS_DOUBLE
#define MANTISSA 52
#define EXPONENT_BIAS 1023ull
#define SIGN_BIT 0x8000000000000000ull
#define ROUNDER 0x1.8p52
#define LN2_HIGH 0x1.62e42fee00000p-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define LOWEST_EXPONENT (-708.0)
#else
#define MANTISSA 23
#define EXPONENT_BIAS 127u
#define SIGN_BIT 0x80000000u
#define ROUNDER 0x1.8p23f
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f
#define LOWEST_EXPONENT (-87.0f)
#endif

INLINE vec NAME(load)(const REAL *from) {
    vec v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

INLINE void NAME(store)(REAL *to, vec v) { __builtin_memcpy(to, &v, sizeof v); }

INLINE vec NAME(splat)(REAL x) { return (vec){0} + x; }

/* The tensors of a caller end where they end: the last vector of a row may hold fewer numbers. */
INLINE vec NAME(load_some)(const REAL *from, int64_t count) {
    if (__builtin_expect(count >= LANES, 1)) return NAME(load)(from);
    vec v = {0};
    LOAD_SOME(v, from, count);
    return v;
}

INLINE void NAME(store_some)(REAL *to, vec v, int64_t count) {
    if (__builtin_expect(count >= LANES, 1)) {
        NAME(store)(to, v);
        return;
    }
    STORE_SOME(to, v, count);
}

INLINE vec NAME(select)(bits where, vec yes, vec no) {
    return (vec)(((bits)yes & where) | ((bits)no & ~where));
}

#if LANES == 16
#define COUNTED 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#elif LANES == 8
#define COUNTED 0, 1, 2, 3, 4, 5, 6, 7
#elif LANES == 4
#define COUNTED 0, 1, 2, 3
#else
#define COUNTED 0, 1
#endif

INLINE REAL NAME(total)(vec v) {
#if defined(__clang__)
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) v[i] += v[i + width];
#else
    UNROLL for (int width = LANES / 2; width > 0; width /= 2)
        v += __builtin_shuffle(v, ((bits){COUNTED} + (BITS)width) % (BITS)LANES);
#endif
    return v[0];
}

/* Blocks of `width` lanes of two vectors to blocks half as wide, those of `a` first: every block's
 * two halves are added, as a step of `total` does. */
INLINE vec NAME(halved)(vec a, vec b, const int width) {
#if defined(__clang__)
    vec low, high;
    UNROLL for (int i = 0; i < LANES; i++) {
        const int at = i / (width / 2) * width + i % (width / 2);
        low[i] = at < LANES ? a[at % LANES] : b[at % LANES];
        high[i] = at < LANES ? a[at % LANES + width / 2] : b[at % LANES + width / 2];
    }
    return low + high;
#else
    const bits lane = {COUNTED};
    const bits first = lane / (BITS)(width / 2) * (BITS)width + lane % (BITS)(width / 2);
    return __builtin_shuffle(a, b, first) + __builtin_shuffle(a, b, first + (BITS)(width / 2));
#endif
}

/* One vector out of 1, 2 or 4, whose blocks of `width` lanes become as many times narrower. All
 * sizes are known where this is inlined: shuffles found at run time take divisions. */
INLINE vec NAME(fold)(const int count, const vec *v, const int width) {
    if (count == 1) return v[0];
    if (count == 2) return NAME(halved)(v[0], v[1], width);
    return NAME(halved)(NAME(halved)(v[0], v[1], width), NAME(halved)(v[2], v[3], width), width / 2);
}
#undef COUNTED

/* For y <= 0: e^y = scale * (1 + *rest), by y = k ln 2 + r and a Taylor series for e^r - 1, which
 * on |r| <= ln 2 / 2 is below half a unit in the last place. */
INLINE vec NAME(exponential)(vec y, vec *rest) {
    y = NAME(select)((bits)(y < (REAL)LOWEST_EXPONENT), NAME(splat)((REAL)LOWEST_EXPONENT), y);
    vec rounded = y * (REAL)1.4426950408889634 + (REAL)ROUNDER;
    vec k = rounded - (REAL)ROUNDER;
    vec r = y - k * (REAL)LN2_HIGH;
    r = r - k * (REAL)LN2_LOW;
#if IS_DOUBLE
    vec p = r * (1 / 6227020800.0) + (1 / 479001600.0);
    p = p * r + (1 / 39916800.0);
    p = p * r + (1 / 3628800.0);
    p = p * r + (1 / 362880.0);
    p = p * r + (1 / 40320.0);
    p = p * r + (1 / 5040.0);
#else
    vec p = NAME(splat)((REAL)(1 / 5040.0));
#endif
    p = p * r + (REAL)(1 / 720.0);
    p = p * r + (REAL)(1 / 120.0);
    p = p * r + (REAL)(1 / 24.0);
    p = p * r + (REAL)(1 / 6.0);
    p = p * r + (REAL)0.5;
    *rest = p * (r * r) + r;
    return (vec)(((bits)rounded << MANTISSA) + ((BITS)EXPONENT_BIAS << MANTISSA));
}

INLINE vec NAME(sigmoid)(vec x) {
    vec rest;
    vec scale = NAME(exponential)((vec)((bits)x | (BITS)SIGN_BIT), &rest);
    vec e = scale * rest + scale;
    vec one = NAME(splat)(1);
    return NAME(select)((bits)(x >= 0), one, e) / (e + one);
}

/* Near zero through a form that keeps the relative accuracy of small arguments: e^y - 1, or in
 * single precision an odd polynomial (our own minimax fit on |x| <= 0.55, error below 1e-8). */
INLINE vec NAME(tanh)(vec x) {
    vec rest;
    vec scale = NAME(exponential)((vec)((bits)(x + x) | (BITS)SIGN_BIT), &rest);
#if IS_DOUBLE
    vec minus = scale * rest + (scale - 1);
    vec size = minus / (minus + 2);
    return (vec)(((bits)size & ~(BITS)SIGN_BIT) | ((bits)x & (BITS)SIGN_BIT));
#else
    vec e = scale * rest + scale;
    vec far = 1 - (e + e) / (e + 1);
    far = (vec)((bits)far | ((bits)x & (BITS)SIGN_BIT));
    vec z = x * x;
    vec near = z * -0x1.9b3046p-8f + 0x1.593d06p-6f;
    near = near * z - 0x1.b9287ap-5f;
    near = near * z + 0x1.110d26p-3f;
    near = near * z - 0x1.55554ap-2f;
    near = near * (z * x) + x;
    return NAME(select)((bits)(z < 0.3025f), near, far);
#endif
}
