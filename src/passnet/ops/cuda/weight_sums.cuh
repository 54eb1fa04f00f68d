// Sums over all rows come from chunks of them: what one chunk results in and where it lies, and how chunks
// are added up.
//
// Compile-time constants: those of the scans; RECURRENT, the factors of state matrices, or input matrices;
// WIDTH columns, BIAS whether there are sums of the gradient.

constexpr int G = CELL == 3 ? 2 : CELL == 2 ? 4 : 3;  // 3: the two parts of complex inputs
constexpr bool MERGED = TIED && MASKS != 2;
constexpr int SLOTS = MERGED ? (CELL == 1 ? 2 : 1) : G;
constexpr long long MATRIX = (long long)N * WIDTH;
constexpr bool DENSE = RECURRENT && D == 0;
constexpr bool SUMS = RECURRENT ? !DENSE && INNER : BIAS != 0;
// Left or input matrices, right or dense matrices, diagonals, sums of the gradient.
constexpr long long RIGHT = DENSE ? 0 : G * MATRIX;
constexpr long long DIAGONAL = RIGHT + (RECURRENT ? SLOTS * MATRIX : 0);
constexpr long long SUM = DIAGONAL + (RECURRENT && DIAG ? G * N : 0);
constexpr long long TOTAL = SUM + (SUMS ? (RECURRENT ? N : G * N) : 0);

// A row whose state is held whole has no gradient.
__device__ __forceinline__ bool moves(const io_t* hold, const io_t* hold_cell, int row) {
  return to_float(hold[row]) != 1.0f || (CELL == 2 && to_float(hold_cell[row]) != 1.0f);
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
