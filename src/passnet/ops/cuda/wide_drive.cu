// The drive of drive.cu for features of sixteen bits, on tensor cores: drive[g, row, i] = b[g, i] + W[g, i] v[row].
// A block has U units of one gate, whose share of W stays in registers, and takes a chunk of rows, R at a time.
// Results are collected in shared memory: there a row is as long as the units of a block, in registers eight.
//
// Compile-time constants: N units, WIDTH columns of W, BIAS.

constexpr int NT = 128;
constexpr int OWN = 64;           // units of a warp
constexpr int U = NT / 32 * OWN;  // units of a block
constexpr int R = 32;             // rows of a tile
constexpr int STEPS = (WIDTH + 15) / 16;
// Elements from row to row. Fragments are read eight bytes a lane, four lanes from each row: rows that
// begin an odd number of 32 bytes apart keep them free of conflicts. Results are written four bytes a lane.
constexpr int PITCH = 16 * (STEPS | 1);
constexpr int RESULT_PITCH = U + 8;
static_assert(U * PITCH <= 2 * R * (PITCH + RESULT_PITCH), "W passes through the room of the tiles");

// Elements that one store takes.
__device__ constexpr int together(int row) {
  int many = 16 / sizeof(io_t);
  while (row % many) many /= 2;
  return many;
}
constexpr int VEC = together(N);
struct __align__(sizeof(io_t) * VEC) Piece {
  io_t of[VEC];
};

// MANY rows as they lie in memory, one behind the other, of which a thread has every NT-th element.
template <int MANY>
struct Rows {
  static constexpr int EACH = (MANY * WIDTH + NT - 1) / NT;
  io_t of[EACH];

  // Those from `there` on are zero.
  __device__ __forceinline__ void load(const io_t* from, int there) {
    const int t = thread_again(), end = (there < MANY ? there : MANY) * WIDTH;
#pragma unroll
    for (int j = 0; j < EACH; j++) of[j] = read(from + t + j * NT, t + j * NT < end);
  }
  __device__ __forceinline__ void store(io_t* to) const {
    // Divided once: from one element to the next, the remainder goes over the end of a row at most once.
    const int t = thread_again(), row = t / WIDTH, column = t % WIDTH;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
      if ((j + 1) * NT > MANY * WIDTH && t >= MANY * WIDTH - j * NT) break;
      const int k = column + j * NT % WIDTH;
      to[(row + j * NT / WIDTH) * PITCH + k + (k < WIDTH ? 0 : PITCH - WIDTH)] = of[j];
    }
  }
};

__device__ __forceinline__ unsigned pair(io_t lower, io_t upper) {
  return lower.bits | (unsigned)upper.bits << 16;
}
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if IO_TYPE == 1
  mma_bfloat16(c, a, b);
#else
  mma(c, a, b);
#endif
}

extern "C" __global__ void __launch_bounds__(NT, 3)
form_wide_drive(const io_t* __restrict__ x, const io_t* __restrict__ weight,
                const io_t* __restrict__ bias, io_t* __restrict__ drive, int count, int chunk) {
  extern __shared__ __align__(16) float smem[];
  io_t* const rows = reinterpret_cast<io_t*>(smem);  // two tiles of x, or all of W
  io_t* const results = rows + 2 * R * PITCH;        // of two tiles
  const int unit0 = blockIdx.x * U, g = blockIdx.y;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int line = lane / 4, own = lane % 4;  // a lane's row of a fragment, and its place there

  const int first = blockIdx.z * chunk;
  const int last = first + chunk < count ? first + chunk : count;
  Rows<R> coming;
  coming.load(x + (long long)first * WIDTH, last - first);

  // Columns beyond the last are zero in W, and stay so where x comes to lie.
  for (int i = threadIdx.x; i < U; i += NT)
#pragma unroll
    for (int k = WIDTH; k < 16 * STEPS; k++) rows[i * PITCH + k] = from_float(0.0f);
#pragma unroll
  for (int i = 0; i < U; i += NT) {
    Rows<NT> part;
    const int there = N - unit0 - i;
    part.load(weight + ((long long)g * N + unit0 + i) * WIDTH, there > 0 ? there : 0);
    part.store(rows + i * PITCH);
  }
  // Four columns of a row. A fragment wants two and, eight columns on, two more; it is given the four that lie
  // together, of both factors, so that the same products are summed up.
  auto fragment = [&](int row, int step) {
    return *reinterpret_cast<const uint2*>(rows + row * PITCH + step * 16 + own * 4);
  };
  __syncthreads();
  unsigned w[OWN / 8][STEPS][2];
  unsigned b[OWN / 8];  // pairs, as they lie in memory: floats would take twice the registers
#pragma unroll
  for (int j = 0; j < OWN / 8; j++) {
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
      const uint2 four = fragment(warp * OWN + j * 8 + line, s);
      w[j][s][0] = four.x, w[j][s][1] = four.y;
    }
    const int u = unit0 + warp * OWN + j * 8 + own * 2;
    b[j] = pair(read(bias + g * N + u, BIAS && u < N), read(bias + g * N + u + 1, BIAS && u + 1 < N));
  }
  __syncthreads();

  coming.store(rows);
  // One barrier a tile: behind it are the tile of x and the results of the tile before, and nobody needs the
  // other tile of x or the results before those any more.
  for (int base = first, turn = 0;; base += R, turn ^= 1) {
    __syncthreads();
    const bool more = base + R < last;
    if (more) coming.load(x + (long long)(base + R) * WIDTH, last - base - R);
    if (base > first) {
      constexpr int PIECES = U / VEC;
      const int t = thread_again(), row = t / PIECES, unit = t % PIECES * VEC;
      const int there = last - (base - R) - row;
      const io_t* from = results + ((turn ^ 1) * R + row) * RESULT_PITCH + unit;
      io_t* to = drive + ((long long)g * count + base - R + row) * N + unit0 + unit;
#pragma unroll
      for (int i = 0; i < R * PIECES; i += NT) {
        const int r = i / PIECES, u = i % PIECES * VEC;
        if (r < there && unit0 + unit + u < N)
          *reinterpret_cast<Piece*>(to + r * N + u) =
              *reinterpret_cast<const Piece*>(from + r * RESULT_PITCH + u);
      }
    }
    if (base >= last) break;
#pragma unroll
    for (int m = 0; m < R; m += 16) {
      float acc[OWN / 8][4];
#pragma unroll
      for (int j = 0; j < OWN / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) acc[j][i] = to_float({(unsigned short)(b[j] >> i % 2 * 16)});
#pragma unroll
      for (int s = 0; s < STEPS; s++) {
        const uint2 upper = fragment(turn * R + m + line, s), lower = fragment(turn * R + m + line + 8, s);
        const unsigned a[4] = {upper.x, lower.x, upper.y, lower.y};
#pragma unroll
        for (int j = 0; j < OWN / 8; j++) multiply(acc[j], a, w[j][s]);
      }
      io_t* to = results + (turn * R + m + line) * RESULT_PITCH + warp * OWN + own * 2;
#pragma unroll
      for (int j = 0; j < OWN / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i += 2)
          *reinterpret_cast<unsigned*>(to + i / 2 * 8 * RESULT_PITCH + j * 8) =
              pair(from_float(acc[j][i]), from_float(acc[j][i + 1]));
    }
    if (more) coming.store(rows + (turn ^ 1) * R * PITCH);
  }
}
