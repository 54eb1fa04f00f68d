// Gradients of the factors after a scan: sums over all rows (steps and sequences) of outer products
// between a vector of N units and one of at most KT numbers.
//
// Recurrent matrices (SYMBOLS < 0), from the summaries z = R x and dz = L^T dy that the scans hand on:
//   job g < G:          dL[g] = sum dy_g z_g^T,  dD[g] = sum dy_g * x_g,  inner bias = sum dy_2
//   job G + s:          dR[s] = sum dz_s x_s^T
// where dy is the gradient of a gate's product and x what entered its matrix.
// Input matrices: dW[g] = sum grad_g v^T and the bias' sum, v being features or (SYMBOLS) one-hot.
//
// Compile-time constants beside those of the scans: NT threads, RT rows staged at once, KT columns of
// a tile, WIDTH columns in all, SYMBOLS -1 recurrent, 0 features, 1 symbols, MMA whether tensor cores
// multiply; if not, UM x KM results of a thread.

constexpr int G = CELL == 3 ? 2 : CELL == 2 ? 4 : 3;  // 3: the two parts of complex inputs
constexpr bool RECURRENT = SYMBOLS < 0;
constexpr int U = 128;  // units of a tile
constexpr bool MERGED = TIED && MASKS != 2;
constexpr int SLOTS = MERGED ? (CELL == 1 ? 2 : 1) : G;
constexpr int UNIT_TILES = (N + U - 1) / U;
// Row strides of 8 or 24 modulo 32 keep the fragments of tensor cores free of conflicts.
constexpr int US = MMA ? U + 8 : U;
constexpr int KS = MMA && KT % 16 == 0 ? KT + 8 : KT;
constexpr int PER = RT * U / NT;        // staged elements of a thread, all of one unit
constexpr int ROW_STEP = NT / U;
// Columns are staged as if they were a power of two, so that nothing has to be divided.
constexpr int KC = KT > 64 ? 128 : KT > 32 ? 64 : KT > 16 ? 32 : KT > 8 ? 16 : KT > 4 ? 8 : 4;
constexpr int ZROW_STEP = NT / KC;
constexpr int ZPER = (RT + ZROW_STEP - 1) / ZROW_STEP;
constexpr long long MATRIX = (long long)N * WIDTH;
constexpr bool SUMS = RECURRENT ? (INNER != 0) : (BIAS != 0);
// One chunk's results: left or input matrices, right matrices, diagonals, sums of the gradient.
constexpr long long RIGHT = G * MATRIX;
constexpr long long DIAGONAL = RIGHT + (RECURRENT ? SLOTS * MATRIX : 0);
constexpr long long SUM = DIAGONAL + (RECURRENT && DIAG ? G * N : 0);
constexpr long long TOTAL = SUM + (SUMS ? (RECURRENT ? N : G * N) : 0);

__device__ __forceinline__ int slot_of(int g) {
  return MERGED ? (CELL == 1 && g == 2 ? 1 : 0) : g;
}

// The results of one thread. multiply adds the products of the staged rows; write hands every result
// out with its place in the tile.
#if MMA
// A warp has 32 units and every other eight columns, as four by two warps cover the tile.
struct Results {
  static_assert(NT == 256 && RT % 8 == 0, "eight warps, rows in steps of eight");
  static constexpr int WIDE = (KT / 8 + 1) / 2;
  const int lane = threadIdx.x % 32, unit = threadIdx.x / 32 % 4 * 32, odd = threadIdx.x / 128;
  float acc[2][WIDE][4] = {};

  // The last eight columns of the odd warps may be beyond the tile.
  __device__ __forceinline__ bool beyond(int n) const {
    return KT % 16 != 0 && n == WIDE - 1 && odd;
  }
  __device__ __forceinline__ void multiply(const float (&as)[RT][US], const float (&zs)[RT][KS]) {
#pragma unroll
    for (int r = 0; r < RT; r += 8) {
      unsigned high[2][4], low[2][4];
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          split(as[r + lane % 4 + i / 2 * 4][unit + m * 16 + i % 2 * 8 + lane / 4], high[m][i],
                low[m][i]);
#pragma unroll
      for (int n = 0; n < WIDE; n++) {
        if (beyond(n)) break;
        unsigned z_high[2], z_low[2];
#pragma unroll
        for (int i = 0; i < 2; i++)
          split(zs[r + lane % 4 + i * 4][(n * 2 + odd) * 8 + lane / 4], z_high[i], z_low[i]);
#pragma unroll
        for (int m = 0; m < 2; m++)
          multiply_halves(acc[m][n], high[m], low[m], z_high, z_low);
      }
    }
  }
  template <class Out>
  __device__ __forceinline__ void write(Out out) const {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int n = 0; n < WIDE; n++) {
        if (beyond(n)) break;
#pragma unroll
        for (int i = 0; i < 4; i++)
          out(unit + m * 16 + lane / 4 + i / 2 * 8, (n * 2 + odd) * 8 + lane % 4 * 2 + i % 2,
              acc[m][n][i]);
      }
  }
};
#else
// A square of UM units by KM columns; the last threads may have none.
struct Results {
  static constexpr int GROUPS = KT / KM, WORKERS = U / UM * GROUPS;
  const int tu = threadIdx.x / GROUPS * UM, tk = threadIdx.x % GROUPS * KM;
  float acc[UM][KM] = {};

  __device__ __forceinline__ void multiply(const float (&as)[RT][US], const float (&zs)[RT][KS]) {
    if (threadIdx.x >= WORKERS) return;
#pragma unroll
    for (int r = 0; r < RT; r++) {
      float p[UM], q[KM];
#pragma unroll
      for (int i = 0; i < UM; i += UM < 4 ? 1 : 4) {
        if (UM < 4) {
          p[i] = as[r][tu + i];
        } else {
          const float4 w = *reinterpret_cast<const float4*>(&as[r][tu + i]);
          p[i] = w.x; p[i + 1] = w.y; p[i + 2] = w.z; p[i + 3] = w.w;
        }
      }
#pragma unroll
      for (int j = 0; j < KM; j += 4) {
        const float4 w = *reinterpret_cast<const float4*>(&zs[r][tk + j]);
        q[j] = w.x; q[j + 1] = w.y; q[j + 2] = w.z; q[j + 3] = w.w;
      }
#pragma unroll
      for (int i = 0; i < UM; i++)
#pragma unroll
        for (int j = 0; j < KM; j++) acc[i][j] = fmaf(p[i], q[j], acc[i][j]);
    }
  }
  template <class Out>
  __device__ __forceinline__ void write(Out out) const {
    if (threadIdx.x >= WORKERS) return;
#pragma unroll
    for (int i = 0; i < UM; i++)
#pragma unroll
      for (int j = 0; j < KM; j++) out(tu + i, tk + j, acc[i][j]);
  }
};
#endif

// Two blocks with tensor cores hide each other's barriers: 128 registers for each of their threads.
extern "C" __global__ void __launch_bounds__(NT, MMA ? 2 : 0)
weight_parts(const io_t* __restrict__ grads, const io_t* __restrict__ states,
             const io_t* __restrict__ h0, const io_t* __restrict__ reset,
             const io_t* __restrict__ masks, const float* __restrict__ z,
             const float* __restrict__ dz, const io_t* __restrict__ inputs,
             const long long* __restrict__ symbols, const io_t* __restrict__ scale,
             float* __restrict__ parts, int count, int B, int chunk) {
  __shared__ __align__(16) float as[2][RT][US];
  __shared__ __align__(16) float zs[2][RT][KS];
  const int unit0 = blockIdx.x % UNIT_TILES * U, k0 = blockIdx.x / UNIT_TILES * KT;
  const int job = blockIdx.y, first = blockIdx.z * chunk;
  const int last = first + chunk < count ? first + chunk : count;
  const bool left = job < G;
  const int g = left ? job : (MERGED ? (job == G ? 0 : 2) : job - G);
  // The candidate's reset gate scales the gradient (reset after) or the state (reset before).
  const bool gated = RECURRENT && CELL != 2 && g == 2;
  const bool sums = k0 == 0 && left && (RECURRENT ? DIAG || (SUMS && g == 2) : SUMS);
  const int unit = unit0 + threadIdx.x % U, row_in = threadIdx.x / U;
  const int column = threadIdx.x % KC, k = k0 + column, zrow_in = threadIdx.x / KC;
  const bool staging = column < KT && zrow_in < RT;

  // What enters a matrix is the state its step began with, under its mask and perhaps its reset gate.
  const bool entering = !left || (RECURRENT && DIAG && sums);
  const bool gating = gated && (CELL == 0 ? left : entering);
  const io_t* plane = grads + (long long)(left ? g : 0) * count * N;
  const io_t* before = states - (long long)B * N;
  const float* summary = (left ? z : dz) + (left ? slot_of(g) : job - G) * WIDTH + k;
  io_t grad[PER], state[PER], gate[PER], mask[PER];
  float v[ZPER], diagonal = 0.0f, sum = 0.0f;
  // Loads only: whatever used a value here would wait for it.
  auto fetch = [&](int base) {
#pragma unroll
    for (int i = 0; i < PER; i++) {
      const int row = base + row_in + i * ROW_STEP;
      grad[i] = state[i] = gate[i] = mask[i] = io_t{};
      if (row < last && unit < N) {
        const long long at = (long long)row * N + unit;
        if (left) grad[i] = plane[at];
        if (entering) state[i] = (row < B ? h0 : before)[at];
        if (gating) gate[i] = reset[at];
        if (MASKS && entering)
          mask[i] = masks[((MASKS == 2 ? g * B : 0) + (unsigned)row % B) * (long long)N + unit];
      }
    }
#pragma unroll
    for (int i = 0; i < ZPER; i++) {
      const int row = base + zrow_in + i * ZROW_STEP;
      v[i] = 0.0f;
      if (staging && row < last && k < WIDTH) {
        if (SYMBOLS == 1) v[i] = symbols[row] != k ? 0.0f : scale ? to_float(scale[row]) : 1.0f;
        else if (SYMBOLS == 0) v[i] = to_float(inputs[(long long)row * WIDTH + k]);
        else v[i] = summary[(long long)row * (SLOTS * WIDTH)];
      }
    }
  };
  auto put = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < PER; i++) {
      float entered = to_float(state[i]);
      if (MASKS) entered *= to_float(mask[i]);
      if (CELL == 1 && gating) entered *= to_float(gate[i]);
      float value = left ? to_float(grad[i]) : entered;
      if (CELL == 0 && gating) value *= to_float(gate[i]);
      as[buffer][row_in + i * ROW_STEP][threadIdx.x % U] = value;
      if (sums) {
        diagonal = fmaf(value, entered, diagonal);
        sum += value;
      }
    }
    if (staging) {
#pragma unroll
      for (int i = 0; i < ZPER; i++) zs[buffer][zrow_in + i * ZROW_STEP][column] = v[i];
    }
  };

  Results results;
  fetch(first);
  put(0);
  __syncthreads();
  int buffer = 0;
  for (int base = first; base < last; base += RT, buffer ^= 1) {
    const bool more = base + RT < last;
    if (more) fetch(base + RT);
    results.multiply(as[buffer], zs[buffer]);
    if (more) put(buffer ^ 1);
    __syncthreads();
  }

  float* out = parts + blockIdx.z * TOTAL;
  results.write([&](int u, int k, float value) {
    u += unit0, k += k0;
    if (u < N && k < WIDTH)
      out[left ? g * MATRIX + (long long)u * WIDTH + k
               : RIGHT + (job - G) * MATRIX + (long long)k * N + u] = value;
  });
  if (sums) {
    // Rows of one unit are shared by ROW_STEP threads: they meet in shared memory.
    as[0][row_in][threadIdx.x % U] = diagonal;
    as[1][row_in][threadIdx.x % U] = sum;
    __syncthreads();
    if (row_in == 0 && unit < N) {
#pragma unroll
      for (int i = 1; i < ROW_STEP; i++) {
        diagonal += as[0][i][threadIdx.x];
        sum += as[1][i][threadIdx.x];
      }
      if (RECURRENT && DIAG) out[DIAGONAL + g * N + unit] = diagonal;
      if (SUMS && (!RECURRENT || g == 2)) out[SUM + (RECURRENT ? 0 : g * N) + unit] = sum;
    }
  }
}

// Adds the chunks up, in their order.
extern "C" __global__ void __launch_bounds__(256)
weight_sums(const float* __restrict__ parts, io_t* __restrict__ left, io_t* __restrict__ right,
            io_t* __restrict__ diagonal, io_t* __restrict__ sum, int chunks) {
  constexpr bool JOINED = RECURRENT && TIED && SLOTS > 1;  // several summaries of one shared matrix
  constexpr long long RIGHTS = RECURRENT ? (TIED ? 1 : G) * MATRIX : 0;
  const long long at = blockIdx.x * 256ll + threadIdx.x;
  if (at >= TOTAL - (DIAGONAL - RIGHT) + RIGHTS) return;
  const long long source = at < RIGHT + RIGHTS ? at : at + (DIAGONAL - RIGHT) - RIGHTS;
  float total = 0.0f;
  const int slots = JOINED && at >= RIGHT && at < RIGHT + RIGHTS ? SLOTS : 1;
  for (int slot = 0; slot < slots; slot++) {
    const float* p = parts + source + slot * MATRIX;
#pragma unroll 8
    for (int c = 0; c < chunks; c++) total += p[c * TOTAL];
  }
  const io_t value = from_float(total);
  if (at < RIGHT) left[at] = value;
  else if (at < RIGHT + RIGHTS) right[at - RIGHT] = value;
  else if (source < SUM) diagonal[source - DIAGONAL] = value;
  else sum[source - SUM] = value;
}
