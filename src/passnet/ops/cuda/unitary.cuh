// Shared by both passes of the unitary scan: complex numbers, the Fourier transform inside a block, and
// sums over all units.
//
// Compile-time constants: N = ROWS * COLUMNS units, NT threads, and for each of the two steps of the
// transform K outputs and C columns of a thread's tile, the LANES that share its sums, and whether its
// share of the table is KEPT in registers.

struct __align__(8) Complex { float re, im; };
__device__ __forceinline__ Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
__device__ __forceinline__ Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
__device__ __forceinline__ Complex operator*(float a, Complex b) { return {a * b.re, a * b.im}; }
__device__ __forceinline__ Complex operator*(Complex a, Complex b) {
  return {fmaf(a.re, b.re, -a.im * b.im), fmaf(a.re, b.im, a.im * b.re)};
}
__device__ __forceinline__ Complex conj(Complex a) { return {a.re, -a.im}; }
// The real and the imaginary part of conj(a) b.
__device__ __forceinline__ float inner(Complex a, Complex b) { return fmaf(a.re, b.re, a.im * b.im); }
__device__ __forceinline__ float outer(Complex a, Complex b) { return fmaf(a.re, b.im, -a.im * b.re); }
// The squares of small numbers would vanish: these grow by a power of two first.
__device__ __forceinline__ float modulus(Complex a) {
  const bool small = fabsf(a.re) + fabsf(a.im) < 0x1p-40f;
  a = (small ? 0x1p60f : 1.0f) * a;
  return (small ? 0x1p-60f : 1.0f) * sqrtf(inner(a, a));
}

// M transforms of length L at once: in[j * M + column] to emit(k, column, value). The terms of j and L - j
// are taken together, and so are the results of k and L - k: with H = L / 2 + 1 of each and the real
// products of sums with cosines and of differences with sines, that is a quarter of the plain products.
// In the table, which has the order in which threads read it, a term that is its own partner counts half.
template <int L, int M, int K, int C, int LANES, bool KEPT>
struct Dft {
  static constexpr int H = L / 2 + 1, ACROSS = (H + K - 1) / K * LANES;
  static constexpr int STEPS = (H + LANES - 1) / LANES, TABLE = STEPS * K * ACROSS;
  static constexpr int TILES = (M + C - 1) / C, FIT = NT / ACROSS;
  static constexpr int WALKERS = FIT < TILES ? FIT : TILES;
  static constexpr int ROUNDS = (TILES + WALKERS - 1) / WALKERS;
  static constexpr int SUMS = K * C * 4, AT_ONCE = KEPT ? STEPS : 4;
  static_assert(FIT > 0 && (K * C) % LANES == 0, "every lane is left with whole results");
  const int lane = threadIdx.x % LANES, k0 = threadIdx.x % ACROSS / LANES * K;
  const int walker = threadIdx.x / ACROSS;
  const Complex* table;
  Complex kept[KEPT ? STEPS : 1][K];

  __device__ __forceinline__ explicit Dft(const Complex* tables)
      : table(tables + threadIdx.x % ACROSS) {
    if (!KEPT) return;
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
      for (int k = 0; k < K; k++) kept[KEPT ? s : 0][k] = table[(s * K + k) * ACROSS];
  }
  template <bool INVERSE, class Emit>
  __device__ __forceinline__ void run(const Complex* in, Emit emit) const {
    if (threadIdx.x / 32 * 32 >= ACROSS * WALKERS) return;
#pragma unroll 1
    for (int tile = walker; tile < walker + ROUNDS * WALKERS; tile += WALKERS) {
      float v[SUMS];
#pragma unroll
      for (int i = 0; i < SUMS; i++) v[i] = 0.0f;
#pragma unroll AT_ONCE
      for (int s = 0; s < STEPS; s++) {
        const int j = s * LANES + lane < H ? s * LANES + lane : 0, partner = j ? L - j : 0;
        Complex w[K];
#pragma unroll
        for (int k = 0; k < K; k++) w[k] = KEPT ? kept[KEPT ? s : 0][k] : table[(s * K + k) * ACROSS];
#pragma unroll
        for (int c = 0; c < C; c++) {
          const int column = tile * C + c < M ? tile * C + c : M - 1;
          const Complex p = in[j * M + column], q = in[partner * M + column];
          const Complex sum = p + q, difference = p - q;
#pragma unroll
          for (int k = 0; k < K; k++) {
            float* to = v + (k * C + c) * 4;
            to[0] = fmaf(w[k].re, sum.re, to[0]);
            to[1] = fmaf(w[k].re, sum.im, to[1]);
            to[2] = fmaf(w[k].im, difference.re, to[2]);
            to[3] = fmaf(w[k].im, difference.im, to[3]);
          }
        }
      }
      using Lanes = ScatterSum<SUMS, LANES / 2>;
      int first = 0, limit = SUMS;
      Lanes::run(v, lane);
      Lanes::rows(lane, first, limit);
#pragma unroll
      for (int o = 0; o < Lanes::LEFT / 4; o++) {
        const int which = first / 4 + o, k = k0 + which / C, column = tile * C + which % C;
        if (walker >= WALKERS || k >= H || column >= M) continue;
        const Complex even = {v[4 * o], v[4 * o + 1]};
        const Complex odd = INVERSE ? Complex{-v[4 * o + 3], v[4 * o + 2]}
                                    : Complex{v[4 * o + 3], -v[4 * o + 2]};
        emit(k, column, even + odd);
        if (k > 0 && 2 * k < L) emit(L - k, column, even - odd);
      }
    }
  }
};

constexpr int E = (N + NT - 1) / NT;  // units of a thread, NT apart

// The unitary Fourier transform: COLUMNS transforms of length ROWS, a twist by roots of one (over the
// root of N), ROWS transforms of length COLUMNS.
struct Fourier {
  using First = Dft<ROWS, COLUMNS, K1, C1, LANES1, KEPT1>;
  using Second = Dft<COLUMNS, ROWS, K2, C2, LANES2, KEPT2>;
  First first;
  Second second;
  const Complex* roots;

  __device__ __forceinline__ Fourier(const Complex* tables, const Complex* roots)
      : first(tables + N), second(tables + N + First::TABLE), roots(roots) {}
  // emit(unit, value) for every unit; `in` is no longer read by then.
  template <bool INVERSE, class Emit>
  __device__ __forceinline__ void run(const Complex* in, Complex* between, Emit emit) const {
    first.template run<INVERSE>(in, [&](int k, int c, Complex v) {
      between[c * ROWS + k] = (INVERSE ? conj(roots[c * k]) : roots[c * k]) * v;
    });
    __syncthreads();
    second.template run<INVERSE>(between, [&](int q, int k, Complex v) { emit(k + ROWS * q, v); });
  }
};

// What a block keeps in shared memory.
struct Room {
  Complex *x, *y, *roots, *turn[3], *along[2];
  float* parts;
  int* from;

  __device__ __forceinline__ Room(float* smem, const Complex* tables, const Complex* turns,
                                  const Complex* vectors, const long long* permutation) {
    x = reinterpret_cast<Complex*>(smem);
    y = x + N;
    roots = y + N;
    turn[0] = roots + N;
    turn[1] = turn[0] + N;
    turn[2] = turn[1] + N;
    along[0] = turn[2] + N;
    along[1] = along[0] + N;
    parts = reinterpret_cast<float*>(along[1] + N);
    from = reinterpret_cast<int*>(parts + NT / 16);
    for (int i = threadIdx.x; i < N; i += NT) {
      roots[i] = tables[i];
      for (int d = 0; d < 3; d++) turn[d][i] = turns[d * N + i];
      for (int r = 0; r < 2; r++) along[r][i] = vectors[r * N + i];
      from[i] = (int)permutation[i];
    }
  }
  // The sum of one number of each thread, always in the same order: put, a barrier, then total.
  __device__ __forceinline__ void put(Complex value) const {
    float v[2] = {value.re, value.im};
    const int lane = threadIdx.x % 32;
    ScatterSum<2, 16>::run(v, lane);
    if (lane % 16 == 0) parts[threadIdx.x / 32 * 2 + lane / 16] = v[0];
  }
  __device__ __forceinline__ Complex total() const {
    Complex sum = {0.0f, 0.0f};
#pragma unroll
    for (int w = 0; w < NT / 32; w++) sum = sum + Complex{parts[2 * w], parts[2 * w + 1]};
    return sum;
  }
};
