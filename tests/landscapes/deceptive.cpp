// No kernel: a made-up landscape that leads astray. Whoever follows the slope from here ends at 0 0 0 0 with a speedup of
// 2; at 4 4 4 4 there is one of 4, in a basin of 35 of the 625 points.
constexpr int A = 1;  // one of 0 1 2 3 4
constexpr int B = 2;  // one of 0 1 2 3 4
constexpr int C = 1;  // one of 0 1 2 3 4
constexpr int D = 1;  // one of 0 1 2 3 4
