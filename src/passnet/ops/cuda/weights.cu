// Gradients of the factors after a scan: sums over all rows (steps and sequences) of outer products
// between a vector of N units and one of WIDTH numbers.
//
// Recurrent matrices, from the summaries z = R x and dz = L^T dy that the scans hand on:
//   job g < G:          dL[g] = sum dy_g z_g^T,  dD[g] = sum dy_g * x_g,  inner bias = sum dy_2
//   job G + s:          dR[s] = sum dz_s x_s^T
// where dy is the gradient of a gate's product and x what entered its matrix. Dense ones:
//   job g:              dW[g] = sum dy_g x_g^T
// Input matrices (not RECURRENT): dW[g] = sum grad_g v^T and the bias' sum, v being features. Those of
// symbols are in symbols.cu.
//
// Rows pass through a ring of stages in shared memory. Copies into it (but of single elements of sixteen bits) wait in
// no register, so those of STAGES - 1 stages are always under way: as much as device memory needs to be busy.
//
// Compile-time constants beside those of the scans: NT threads, STAGES of RT rows, PLANES of what may
// have to be combined, US and KS floats from row to row, KT columns of a tile, MMA whether tensor cores
// multiply; if not, UM x KM results of a thread.

constexpr int U = 128;  // units of a tile
constexpr int UNIT_TILES = (N + U - 1) / U;

// A column holds a number of a summary, a gradient of a unit (dense), or a feature.
constexpr int COLUMN_STEP = RECURRENT && !DENSE ? SLOTS * WIDTH : WIDTH;  // from row to row

// What operands are in shared memory: tensor cores multiply sixteen bits as they are.
constexpr bool SHORT = sizeof(io_t) == 2, AS_THEY_ARE = SHORT && MMA;
#if MMA
typedef io_t staged_t;
__device__ __forceinline__ staged_t staged(float v) { return from_float(v); }
#else
typedef float staged_t;
__device__ __forceinline__ staged_t staged(float v) { return v; }
#endif

// Elements that one copy takes, given how many a row in device memory and one of a tile have.
__device__ constexpr int together(int row, int tile) {
  int many = 16 / sizeof(io_t);
  while (row % many || tile % many) many /= 2;
  return many;
}
constexpr int VEC = together(N, U);
constexpr int KVEC = together(WIDTH, KT);
constexpr int ROW_STEP = NT * VEC / U;  // a thread has the same units in every such row
constexpr int PER = (RT + ROW_STEP - 1) / ROW_STEP;
constexpr int OWNERS = ROW_STEP < RT ? ROW_STEP : RT;  // threads with the same units
// Columns are staged as if they were a power of two, so that nothing has to be divided.
__device__ constexpr int power_of_two(int least) {
  int power = 1;
  while (power < least) power *= 2;
  return power;
}
constexpr int KC = power_of_two(KT / KVEC);
constexpr int KROW_STEP = NT / KC;
constexpr int KPER = (RT + KROW_STEP - 1) / KROW_STEP;

// Plane 0 is multiplied: the gradient, or what entered the matrix. Some jobs need others beside it.
struct __align__(16) Stage {
  staged_t a[PLANES][RT][US], z[RT][KS];
};
constexpr int STATE = 1, GATE = STATE + (DIAG != 0), MASK = GATE + (DENSE ? CELL == 1 : CELL != 2);
static_assert(PLANES == (RECURRENT ? MASK + (MASKS != 0) : 1), "one plane for each operand");

// Elements of one copy. Those to be widened lie where their floats will, so that the thread which copied them
// can do it in place.
template <class T, int MANY>
struct __align__(sizeof(T) * MANY < 16 ? sizeof(T) * MANY : 16) Piece {
  T of[MANY];
};
template <class T, int MANY>
__device__ __forceinline__ Piece<T, MANY>& piece(staged_t* at) {
  return *reinterpret_cast<Piece<T, MANY>*>(at);
}
// Single elements of sixteen bits cannot be copied asynchronously: they wait in registers until the next
// stage is fetched.
constexpr bool SINGLE = sizeof(io_t) * VEC < 4, KSINGLE = sizeof(io_t) * KVEC < 4;
static_assert(!(SINGLE || KSINGLE) || STAGES > 2, "a stage is complete when the next one is on its way");

// RESTS: a stage of rows that all rest adds nothing.
struct Stages {
  const io_t *hold, *hold_cell;
  int first, last, count;  // the rows of a chunk, and in how many stages they come
  int base;                // where the 32 stages begin about which `bits` tells
  unsigned bits;

  // The first stage from this one on that adds something, or `count`. All threads ask together.
  __device__ __forceinline__ int next(int stage) {
    if (!RESTS) return stage;
    for (; stage < count; stage = base + 32) {
      if (stage >= base + 32) {
        base = stage;
        const int row = first + (stage + threadIdx.x % 32) * RT;
        bool any = false;
#pragma unroll
        for (int r = 0; r < RT; r++) any = any || (row + r < last && moves(hold, hold_cell, row + r));
        bits = __ballot_sync(0xffffffffu, any);
      }
      const unsigned rest = bits >> (stage - base);
      if (rest) return stage + __ffs(rest) - 1;
    }
    return count;
  }
};

constexpr int NEVER = 1 << 30;  // a row beyond all ends
// What has to be done with rows before they are multiplied: nothing, sums of the gradient or of its products with
// the state, or a product with gate or mask.
enum { PLAIN, SUMMED, COMBINED };
template <int VALUE>
struct Kind {
  static constexpr int value = VALUE;
};

__device__ __forceinline__ int slot_of(int g) {
  return MERGED ? (CELL == 1 && g == 2 ? 1 : 0) : g;
}

#if MMA
#if IO_TYPE == 0
// True float32 products on tensor cores: each factor is split into two tf32 halves, and the sums
// over eight terms are added outside, where they round to nearest.
__device__ __forceinline__ void split(float v, unsigned& high, unsigned& low) {
  // Integer rounding to ten bits of fraction: conversions would run at a quarter of the rate. Tensor cores
  // do not look at the bits below.
  high = (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
  low = __float_as_uint(v - __uint_as_float(high)) + 0x1000u;
}
// acc[16, 8] += a[16, 8] b[8, 8], each as its high and low halves; the product of both low is nothing.
__device__ __forceinline__ void multiply_halves(float (&acc)[4], const unsigned (&a_high)[4],
                                                const unsigned (&a_low)[4],
                                                const unsigned (&b_high)[2],
                                                const unsigned (&b_low)[2]) {
  float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  mma_tf32(part, a_low, b_high);
  mma_tf32(part, a_high, b_low);
  mma_tf32(part, a_high, b_high);
#pragma unroll
  for (int i = 0; i < 4; i++) acc[i] += part[i];
}
#else
// Sums of the tensor core are more than sixteen bits can tell.
__device__ __forceinline__ void multiply(float (&acc)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  if (IO_TYPE == 1) mma_bfloat16(acc, a, b);
  else mma(acc, a, b);
}
#endif
#endif

// The results of one thread. multiply adds the products of the staged rows; write hands every result
// out with its place in the tile.
#if MMA
// A warp has 32 units, and all columns or, of eight warps, every other eight.
struct Results {
  static constexpr int DEPTH = SHORT ? 16 : 8;  // rows of a product
  static_assert(NT % 128 == 0 && RT % DEPTH == 0, "four warps for the units, rows in whole products");
  static constexpr int ACROSS = NT / 128, WIDE = (KT / 8 + ACROSS - 1) / ACROSS;
  const int lane = threadIdx.x % 32, unit = threadIdx.x / 32 % 4 * 32, across = threadIdx.x / 128;
  float acc[2][WIDE][4] = {};

  // The last eight columns of some warps may be beyond the tile.
  __device__ __forceinline__ bool beyond(int n) const {
    return KT / 8 % ACROSS != 0 && n == WIDE - 1 && across;
  }
#if IO_TYPE == 0
  __device__ __forceinline__ void multiply(const float (&as)[RT][US], const float (&zs)[RT][KS]) {
#pragma unroll
    for (int r = 0; r < RT; r += DEPTH) {
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
          split(zs[r + lane % 4 + i * 4][(n * ACROSS + across) * 8 + lane / 4], z_high[i], z_low[i]);
#pragma unroll
        for (int m = 0; m < 2; m++)
          multiply_halves(acc[m][n], high[m], low[m], z_high, z_low);
      }
    }
  }
#else
  // Rows are the depth of the product, and lie one after the other: eight by eight of them are turned as they
  // are loaded. A lane names a row of eight elements, of the first or second eight rows and columns.
  __device__ __forceinline__ void multiply(const io_t (&as)[RT][US], const io_t (&zs)[RT][KS]) {
    static_assert(US % 16 == 8 && KS % 16 == 8, "eight rows lie in eight different groups of banks");
    const int eight = lane / 8 % 2 * 8, other = lane / 16 * 8, row = lane % 8;
#pragma unroll
    for (int r = 0; r < RT; r += DEPTH) {
      unsigned a[2][4];
#pragma unroll
      for (int m = 0; m < 2; m++) load_turned(a[m], &as[r + other + row][unit + m * 16 + eight]);
#pragma unroll
      for (int n = 0; n < WIDE; n += 2) {
        if (beyond(n)) break;
        // Two tiles of eight columns, the second one again the first where there is none.
        const bool two = n + 1 < WIDE && !beyond(n + 1);
        unsigned b[4];
        load_turned(b, &zs[r + eight + row][((n + (two && other)) * ACROSS + across) * 8]);
        const unsigned first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
#pragma unroll
        for (int m = 0; m < 2; m++) {
          ::multiply(acc[m][n], a[m], first);
          if (two) ::multiply(acc[m][n + 1 < WIDE ? n + 1 : n], a[m], second);
        }
      }
    }
  }
#endif
  template <class Out>
  __device__ __forceinline__ void write(Out out) const {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int n = 0; n < WIDE; n++) {
        if (beyond(n)) break;
#pragma unroll
        for (int i = 0; i < 4; i++)
          out(unit + m * 16 + lane / 4 + i / 2 * 8, (n * ACROSS + across) * 8 + lane % 4 * 2 + i % 2,
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

// Several blocks hide each other's barriers: 128 registers for each of their threads.
extern "C" __global__ void __launch_bounds__(NT, MMA ? 512 / NT : 0)
weight_parts(const io_t* __restrict__ grads, const io_t* __restrict__ states,
             const io_t* __restrict__ h0, const io_t* __restrict__ reset,
             const io_t* __restrict__ masks, const io_t* __restrict__ hold,
             const io_t* __restrict__ hold_cell, const io_t* __restrict__ z,
             const io_t* __restrict__ dz, const io_t* __restrict__ inputs,
             float* __restrict__ parts, int count, int B, int chunk) {
  extern __shared__ __align__(16) float smem[];
  Stage* const ring = reinterpret_cast<Stage*>(smem);
  const int unit0 = blockIdx.x % UNIT_TILES * U, k0 = blockIdx.x / UNIT_TILES * KT;
  const int job = blockIdx.y, first = blockIdx.z * chunk;
  const int last = first + chunk < count ? first + chunk : count;
  const bool left = !DENSE && job < G;
  const int slot = DENSE ? job : job - G;
  const int g = left ? job : (MERGED ? (slot == 0 ? 0 : 2) : slot);
  // The candidate's reset gate scales the gradient (reset after) or the state (reset before).
  const bool gated = RECURRENT && CELL != 2 && g == 2;
  const bool sums = k0 == 0 && left && (RECURRENT ? DIAG || (SUMS && g == 2) : SUMS);
  // The pieces a thread copies and finishes.
  const int own = threadIdx.x % (U / VEC) * VEC, unit = unit0 + own, row_in = threadIdx.x / (U / VEC);
  const int column = threadIdx.x % KC * KVEC, k = k0 + column, krow_in = threadIdx.x / KC;

  // What enters a matrix is the state its step began with, under its mask and perhaps its reset gate.
  const bool entering = !left || (RECURRENT && DIAG && sums);
  const bool gating = gated && (CELL == 0 ? left : entering);
  const bool changed = left ? CELL == 0 && gating : gating || MASKS;  // the operand, before it is multiplied
  const io_t* before = states - (long long)B * N;
  const io_t* operand = left ? grads + (long long)g * count * N : before;
  const int initial = left ? 0 : B;  // rows of the operand that are in h0
#if RECURRENT && D
  const io_t* columns = (left ? z : dz) + (left ? slot_of(g) : slot) * WIDTH + k;
#elif RECURRENT
  // Behind its reset gate (reset after) the candidate's gradient is another one.
  const io_t* columns = (CELL == 0 && gated ? inputs : grads + (long long)g * count * N) + k;
#else
  const io_t* columns = inputs + k;
#endif
  float diagonal[VEC] = {}, sum[VEC] = {};

  Stages stages = {hold, hold_cell, first, last, (last - first + RT - 1) / RT, -32, 0};
  int upcoming = stages.next(0), fetched = 0;  // the stage to be copied next, and how many were
  // The thread's first row of that stage, unless it is outside of the matrix.
  int row = unit < N ? first + upcoming * RT + row_in : NEVER;
  int krow = column < KT && k < WIDTH ? first + upcoming * RT + krow_in : NEVER;
  long long at = (long long)(first + upcoming * RT + row_in) * N + unit;
  columns += (long long)(first + upcoming * RT + krow_in) * COLUMN_STEP;

  io_t waiting[SINGLE ? PLANES : 1][PER] = {}, kwaiting[KPER] = {};
  bool some_wait = false;  // those of the stage fetched last
  // Row r of the thread, of all planes that its job reads: calls the function with a plane, its source, and
  // whether it is there: an initial state that was not given is zero.
  auto planes = [&](int r, auto kind, auto each) {
    each(0, (row + r < initial ? h0 : operand) + at + r * N, h0 || row + r >= initial);
    if (kind.value == PLAIN) return;
    if (RECURRENT && DIAG && (kind.value == SUMMED || sums))
      each(STATE, (row + r < B ? h0 : before) + at + r * N, h0 || row + r >= B);
    if (kind.value == COMBINED && gating) each(GATE, reset + at + r * N, true);
    if (MASKS && (kind.value == SUMMED ? RECURRENT && DIAG : entering)) {
      const int sequence = (MASKS == 2 ? g * B : 0) + (unsigned)(row + r) % B;
      each(MASK, masks + (long long)sequence * N + unit, true);
    }
  };
  // Begins to copy a stage, in a group that is empty behind the last one. Rows beyond the end are zero.
  auto fetch = [&](auto kind) {
    if ((SINGLE || KSINGLE) && some_wait) {
      Stage& stage = ring[(fetched - 1) % STAGES];
#pragma unroll
      for (int i = 0; i < PER; i++) {
        const int r = row_in + i * ROW_STEP;
        if (!SINGLE || (RT % ROW_STEP && r >= RT)) break;
#pragma unroll
        for (int which = 0; which < PLANES; which++)
          piece<io_t, 1>(&stage.a[which][r][own]).of[0] = waiting[SINGLE ? which : 0][i];
      }
#pragma unroll
      for (int i = 0; i < KPER; i++) {
        const int r = krow_in + i * KROW_STEP;
        if (!KSINGLE || (RT % KROW_STEP && r >= RT) || column >= KT) break;
        piece<io_t, 1>(&stage.z[r][column]).of[0] = kwaiting[i];
      }
    }
    some_wait = upcoming < stages.count;
    if (some_wait) {
      Stage& stage = ring[fetched % STAGES];
#pragma unroll
      for (int i = 0; i < PER; i++) {
        const int r = i * ROW_STEP;
        if (RT % ROW_STEP && row_in + r >= RT) break;
        const bool inside = row + r < last;
        staged_t* to = &stage.a[0][row_in + r][own];
        planes(r, kind, [&](int which, const io_t* from, bool there) {
          if constexpr (SINGLE) waiting[which][i] = inside && there ? *from : io_t{};
          else copy_async<sizeof(io_t) * VEC>(to + which * RT * US, from, inside && there);
        });
      }
#pragma unroll
      for (int i = 0; i < KPER; i++) {
        const int r = i * KROW_STEP;
        if ((RT % KROW_STEP && krow_in + r >= RT) || column >= KT) break;
        const io_t* from = columns + r * COLUMN_STEP;
        const bool inside = krow + r < last;
        if constexpr (KSINGLE) kwaiting[i] = inside ? *from : io_t{};
        else copy_async<sizeof(io_t) * KVEC>(&stage.z[krow_in + r][column], from, inside);
      }
      const int following = stages.next(upcoming + 1), rows = (following - upcoming) * RT;
      row += rows, krow += rows, at += (long long)rows * N, columns += (long long)rows * COLUMN_STEP;
      upcoming = following;
      fetched++;
    }
    end_group();
  };

  // Makes operands of what the thread itself has copied: nobody else needs to have come so far.
  auto finish = [&](int index, auto kind) {
    Stage& stage = ring[index % STAGES];
    // All of it known beforehand where rows are only summed up.
    constexpr bool SUMMING = kind.value == SUMMED;
    const bool from_left = SUMMING || left, summing = SUMMING || sums, gates = !SUMMING && gating;
    const bool masked = MASKS && (SUMMING ? RECURRENT && DIAG : entering);
#pragma unroll
    for (int i = 0; i < PER; i++) {
      const int r = row_in + i * ROW_STEP;
      if (kind.value == PLAIN || (RT % ROW_STEP && r >= RT)) break;
      auto copied = [&](int which) { return piece<io_t, VEC>(&stage.a[which][r][own]); };
      Piece<io_t, VEC> operand = copied(0), state = operand, gate, mask;
      if (RECURRENT && DIAG && summing) state = copied(STATE);
      if (gates) gate = copied(GATE);
      if (masked) mask = copied(MASK);
      Piece<staged_t, VEC> result;
#pragma unroll
      for (int e = 0; e < VEC; e++) {
        float entered = to_float(state.of[e]);
        if (masked) entered *= to_float(mask.of[e]);
        if (CELL == 1 && gates) entered *= to_float(gate.of[e]);
        float value = from_left ? to_float(operand.of[e]) : entered;
        if (CELL == 0 && gates) value *= to_float(gate.of[e]);
        result.of[e] = staged(value);
        if (RECURRENT && DIAG && summing) diagonal[e] = fmaf(value, entered, diagonal[e]);
        if (SUMS && summing) sum[e] += value;
      }
      if (sizeof(staged_t) > sizeof(io_t) || (!SUMMING && changed))
        piece<staged_t, VEC>(&stage.a[0][r][own]) = result;
    }
#pragma unroll
    for (int i = 0; i < KPER; i++) {
      const int r = krow_in + i * KROW_STEP;
      if (!SHORT || AS_THEY_ARE || (RT % KROW_STEP && r >= RT) || column >= KT) break;
      const Piece<io_t, KVEC> narrow = piece<io_t, KVEC>(&stage.z[r][column]);
      Piece<staged_t, KVEC> result;
#pragma unroll
      for (int e = 0; e < KVEC; e++) result.of[e] = staged(to_float(narrow.of[e]));
      piece<staged_t, KVEC>(&stage.z[r][column]) = result;
    }
  };

  Results results;
  auto run = [&](auto kind) {
#pragma unroll 1
    for (int index = 0; index < STAGES - 1; index++) fetch(kind);
    for (int index = 0; index < fetched; index++) {
      wait_for_groups<STAGES - 2>();
      finish(index, kind);
      __syncthreads();
      // All have multiplied the stage before, so its place is free.
      fetch(kind);
      results.multiply(ring[index % STAGES].a[0], ring[index % STAGES].z);
    }
  };
  // Each kind has a loop of its own: conditions would take as long as the work.
  if (gating || changed) run(Kind<COMBINED>{});
  else if (sums) run(Kind<SUMMED>{});
  else run(Kind<SHORT && !AS_THEY_ARE ? COMBINED : PLAIN>{});

  float* out = parts + blockIdx.z * TOTAL;
  results.write([&](int u, int k, float value) {
    u += unit0, k += k0;
    if (u < N && k < WIDTH)
      out[left ? g * MATRIX + (long long)u * WIDTH + k
               : RIGHT + slot * MATRIX + (long long)k * N + u] = value;
  });
  if (sums) {
    // Threads with the same units meet in shared memory, in stages that nobody reads any more.
    typedef float Shares[OWNERS][U];
    static_assert(sizeof(Shares) <= sizeof(Stage), "a stage has room for them");
    Shares& diagonals = *reinterpret_cast<Shares*>(ring + fetched % STAGES);
    Shares& others = *reinterpret_cast<Shares*>(ring + (fetched + 1) % STAGES);
    if (row_in < OWNERS) {
#pragma unroll
      for (int e = 0; e < VEC; e++) {
        diagonals[row_in][own + e] = diagonal[e];
        others[row_in][own + e] = sum[e];
      }
    }
    __syncthreads();
    const int mine = unit0 + threadIdx.x;
    if (threadIdx.x < U && mine < N) {
      float total = 0.0f, other = 0.0f;
#pragma unroll
      for (int i = 0; i < OWNERS; i++) {
        total += diagonals[i][threadIdx.x];
        other += others[i][threadIdx.x];
      }
      if (RECURRENT && DIAG) out[DIAGONAL + g * N + mine] = total;
      if (SUMS && (!RECURRENT || g == 2)) out[SUM + (RECURRENT ? 0 : g * N) + mine] = other;
    }
  }
}
