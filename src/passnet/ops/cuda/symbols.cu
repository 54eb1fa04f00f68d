// Gradients of input matrices whose inputs are symbols: dW[g, i, s] is the sum of scale * grad[g, row, i] over the
// rows that show s, and the bias' that of grad[g, row, i] over all rows.
//
// A block has 128 units of one gate and a chunk of rows, a thread one of the units and in shared memory its sums
// for all symbols: nobody shares one, and every number of the gradient is read once.
//
// Compile-time constants beside those of weight_sums.cuh: RESTS, whether sequences may rest.

constexpr int U = 128;        // units of a block, and its threads
constexpr int PITCH = U + 1;  // from symbol to symbol: sums are added up by units and written by symbols
constexpr int LISTED = U;     // rows that are looked through at once, one by each thread
constexpr int AHEAD = 16;     // of them, whose gradients are on their way together
constexpr int NONE = -1;      // a symbol that does not exist

struct __align__(16) Listed {
  long long at;  // of the row's first unit
  int symbol;
  float scale;
};

extern "C" __global__ void __launch_bounds__(U)
symbol_parts(const io_t* __restrict__ grads, const io_t* __restrict__ hold,
             const io_t* __restrict__ hold_cell, const long long* __restrict__ symbols,
             const io_t* __restrict__ scale, float* __restrict__ parts, int count, int chunk) {
  extern __shared__ __align__(16) float smem[];  // the sums, [WIDTH, PITCH]
  __shared__ Listed list[LISTED];
  __shared__ int listed_by[U / 32];  // rows, by each warp
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int g = blockIdx.y, unit = blockIdx.x * U + threadIdx.x;
  const int first = blockIdx.z * chunk, last = first + chunk < count ? first + chunk : count;
  const bool mine = unit < N;
  const io_t* own = grads + (long long)g * count * N + (mine ? unit : 0);
  float* const table = smem + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < WIDTH; k++) table[k * PITCH] = 0.0f;

  for (int base = first; base < last; base += LISTED) {
    // The rows that have a gradient, in their order.
    const int row = base + threadIdx.x;
    const bool listed = row < last && (!RESTS || moves(hold, hold_cell, row));
    const unsigned votes = __ballot_sync(0xffffffffu, listed);
    if (lane == 0) listed_by[warp] = __popc(votes);
    __syncthreads();  // all have done with the list before, too
    int place = __popc(votes & ((1u << lane) - 1)), many = 0;
#pragma unroll
    for (int w = 0; w < U / 32; w++) {
      if (w < warp) place += listed_by[w];
      many += listed_by[w];
    }
    if (listed) {
      const bool known = (unsigned long long)symbols[row] < WIDTH;
      list[place] = {(long long)row * N, known ? (int)symbols[row] : NONE, scale ? to_float(scale[row]) : 1.0f};
    }
    __syncthreads();
    for (int i = 0; i < many; i += AHEAD) {
      float values[AHEAD], together = 0.0f;
      int shown[AHEAD];
#pragma unroll
      for (int r = 0; r < AHEAD; r++)
        values[r] = mine && i + r < many ? to_float(own[list[i + r].at]) : 0.0f;
#pragma unroll
      for (int r = 0; r < AHEAD; r++) {
        const bool there = i + r < many;
        shown[r] = there ? list[i + r].symbol : NONE;
        together += values[r];
        values[r] *= there ? list[i + r].scale : 0.0f;
      }
      sum += together;
#pragma unroll
      for (int r = 0; r < AHEAD; r++)
        if (shown[r] != NONE) table[shown[r] * PITCH] += values[r];
    }
  }

  float* out = parts + blockIdx.z * TOTAL;
  if (BIAS && mine) out[SUM + g * N + unit] = sum;
  // A block's units lie one after the other in the result, each with all its symbols.
  __syncthreads();
  const int units = N - blockIdx.x * U < U ? N - blockIdx.x * U : U;
  float* to = out + g * MATRIX + (long long)blockIdx.x * U * WIDTH;
  for (int i = threadIdx.x; i < units * WIDTH; i += U) to[i] = smem[i % WIDTH * PITCH + i / WIDTH];
}
