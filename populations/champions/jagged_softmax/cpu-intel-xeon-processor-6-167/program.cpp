#include "kevolve.h"
#include <immintrin.h>
#include <omp.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#define INL inline __attribute__((always_inline))
namespace {
constexpr bool kHalf = sizeof(VALUE) == 2;
constexpr int64_t kStreamBytes = (int64_t)2 << 20, kScratch = 64 * 1024, kQueue = 64, kRing = 2 * kScratch;
constexpr int kFetch = 16384;

template <class F, int... I> INL void unroll_(F &&f, std::integer_sequence<int, I...>) {
    (f(std::integral_constant<int, I>{}), ...);
}
template <int N, class F> INL void unroll(F &&f) { unroll_(f, std::make_integer_sequence<int, N>{}); }
#define EACH unroll<NV>([&](auto i_) __attribute__((always_inline)) { constexpr int I = decltype(i_)::value;

template <bool MASK> INL __m512 load(const VALUE *p, __mmask16 m) {
    if constexpr (kHalf) {
        __m256i h;
        if constexpr (MASK) h = _mm256_maskz_loadu_epi16(m, (const void *)p);
        else h = _mm256_loadu_si256((const __m256i *)(const void *)p);
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
    } else {
        if constexpr (MASK) return _mm512_maskz_loadu_ps(m, (const void *)p);
        else return _mm512_loadu_ps((const void *)p);
    }
}
INL __m256i half(__m512 v) {
#ifdef __AVX512BF16__
    return (__m256i)_mm512_cvtneps_pbh(v);
#else
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc0));
    return _mm512_cvtepi32_epi16(r);
#endif
}
INL void store(VALUE *p, __mmask16 m, __m512 v) {
    if constexpr (kHalf) _mm256_mask_storeu_epi16((void *)p, m, half(v));
    else _mm512_mask_storeu_ps((void *)p, m, v);
}
template <int I, int NV, bool STREAM> INL void emit(VALUE *out, __mmask16 m, __m512 y, __m512 &before) {
    if constexpr (NV == 1) {
        store(out, m, y);
    } else if constexpr (kHalf) {
        if constexpr (I % 2 == 0) {
            before = y;
        } else {
#ifdef __AVX512BF16__
            const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(y, before);
#else
            const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(half(before)), half(y), 1);
#endif
            VALUE *const p = out + 16 * (I - 1);
            if constexpr (STREAM) _mm512_stream_si512((__m512i *)(void *)p, both);
            else _mm512_storeu_si512((void *)p, both);
        }
    } else {
        if constexpr (STREAM) _mm512_stream_ps((float *)(void *)(out + 16 * I), y);
        else _mm512_storeu_ps((void *)(out + 16 * I), y);
    }
}
// exp(x) by a table of 2^(j/16) and a cubic; a huge x gives what is not good
INL __m512 quick(__m512 x) {
    const __m512 table = _mm512_setr_ps(1.0f, 1.04427378f, 1.09050773f, 1.13878863f, 1.18920712f, 1.24185781f,
                                        1.29683955f, 1.35425555f, 1.41421356f, 1.47682615f, 1.54221083f, 1.61049033f,
                                        1.68179283f, 1.75625216f, 1.83400809f, 1.91520656f);
    const __m512 scale = _mm512_set1_ps(1.44269504088896341f), magic = _mm512_set1_ps(786432.0f); // 1.5 * 2^19
    const __m512 z = _mm512_fmadd_ps(x, scale, magic);
    const __m512 n = _mm512_sub_ps(z, magic);
    const __m512 r = _mm512_fmsub_ps(x, scale, n);
    const __m512 t = _mm512_permutexvar_ps(_mm512_castps_si512(z), table);
    __m512 p = _mm512_set1_ps(0.240226507f);
    if constexpr (!kHalf) p = _mm512_fmadd_ps(r, _mm512_set1_ps(0.0555041087f), p);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693147181f));
    return _mm512_scalef_ps(_mm512_fmadd_ps(_mm512_mul_ps(t, r), p, t), n);
}
INL __m512 shifted(__m512 v, __m512 mx) { return quick(_mm512_max_ps(_mm512_set1_ps(-200.0f), _mm512_sub_ps(v, mx))); }

// Any values, with the maximum; rare.
__attribute__((noinline)) void slow(const VALUE *x, VALUE *out, int64_t rows, int64_t dim, int64_t columns) {
    for (int64_t c = 0; c < columns; c += 16) {
        const __mmask16 m = columns - c < 16 ? (__mmask16)((1u << (columns - c)) - 1) : (__mmask16)0xffff;
        __m512 mx = _mm512_set1_ps(-INFINITY), s = _mm512_setzero_ps(), lost = s;
        for (int64_t r = 0; r < rows; r++) mx = _mm512_max_ps(load<true>(x + r * dim + c, m), mx);
        for (int64_t r = 0; r < rows; r++) {
            const __m512 y = _mm512_sub_ps(shifted(load<true>(x + r * dim + c, m), mx), lost), t = _mm512_add_ps(s, y);
            lost = _mm512_sub_ps(_mm512_sub_ps(t, s), y);
            s = t;
        }
        const __m512 inv = _mm512_div_ps(_mm512_set1_ps(1.0f), s);
        for (int64_t r = 0; r < rows; r++)
            store(out + r * dim + c, m, _mm512_mul_ps(shifted(load<true>(x + r * dim + c, m), mx), inv));
    }
}

struct State { // a queue of segments whose exponentials wait in a ring
    struct Item {
        alignas(64) float inv[128];
        int64_t rows;
        VALUE *out;
        const float *e;
    } items[kQueue];
    alignas(64) float ring[kRing];
    int64_t rows = 0, head = 0, tail = 0, at = 0;
    int nv = 0;
    __mmask16 m = 0;
};

// Up to 32 rows are added up, their exponentials kept, while as many rows of what is pending are written.
template <int NV, bool KEEP, bool WRITE, bool STREAM>
INL void block(const VALUE *x, float *e, int64_t count, int64_t dim, __mmask16 m, float *sum, float *lost,
               const float *old, const float *inv, VALUE *out) {
    __m512 s[NV], before = _mm512_setzero_ps();
    EACH
        s[I] = _mm512_setzero_ps();
    });
    auto row = [&]() __attribute__((always_inline)) {
        EACH
            if constexpr (!kHalf || I % 2 == 0) _mm_prefetch((const char *)(x + 16 * I) + kFetch, _MM_HINT_T1);
            const __m512 y = quick(load<NV == 1>(x + 16 * I, m));
            s[I] = _mm512_add_ps(s[I], y);
            if constexpr (KEEP) _mm512_store_ps(e + 16 * I, y);
            if constexpr (WRITE)
                emit<I, NV, STREAM>(out, m, _mm512_mul_ps(_mm512_load_ps(old + 16 * I), _mm512_load_ps(inv + 16 * I)), before);
        });
        x += dim;
        if constexpr (KEEP) e += NV * 16;
        if constexpr (WRITE) {
            old += NV * 16;
            out += dim;
        }
    };
    int64_t r = 0;
    if constexpr (NV <= 2)
        for (; r + 4 <= count; r += 4) row(), row(), row(), row();
    for (; r < count; r++) row();
    EACH
        const __m512 was = _mm512_load_ps(sum + 16 * I), y = _mm512_sub_ps(s[I], _mm512_load_ps(lost + 16 * I));
        const __m512 t = _mm512_add_ps(was, y);
        _mm512_store_ps(lost + 16 * I, _mm512_sub_ps(_mm512_sub_ps(t, was), y));
        _mm512_store_ps(sum + 16 * I, t);
    });
}
template <int NV, bool STREAM>
__attribute__((noinline)) void put(const float *e, int64_t rows, int64_t dim, __mmask16 m, const float *inv, VALUE *out) {
    __m512 f[NV], before = _mm512_setzero_ps();
    EACH f[I] = _mm512_load_ps(inv + 16 * I); });
    for (int64_t r = 0; r < rows; r++) {
        EACH emit<I, NV, STREAM>(out, m, _mm512_mul_ps(_mm512_load_ps(e + 16 * I), f[I]), before); });
        e += NV * 16;
        out += dim;
    }
}
template <bool STREAM> __attribute__((noinline)) void front(State &p, int64_t dim) {
    auto &q = p.items[p.head++ % kQueue];
    if (p.nv == 8) put<8, STREAM>(q.e, q.rows, dim, p.m, q.inv, q.out);
    else if (p.nv == 4) put<4, STREAM>(q.e, q.rows, dim, p.m, q.inv, q.out);
    else if (p.nv == 2) put<2, STREAM>(q.e, q.rows, dim, p.m, q.inv, q.out);
    else put<1, STREAM>(q.e, q.rows, dim, p.m, q.inv, q.out);
    p.rows -= q.rows;
}
template <bool STREAM> void flush(State &p, int64_t dim) {
    while (p.rows) front<STREAM>(p, dim);
}
template <int NV, bool STREAM>
__attribute__((noinline)) void step(const VALUE *x, VALUE *out, int64_t rows, int64_t dim, int64_t columns, State &p) {
    const __mmask16 m = columns < 16 ? (__mmask16)((1u << columns) - 1) : (__mmask16)0xffff;
    alignas(64) float sum[NV * 16], lost[NV * 16], factor[NV * 16];
    for (int i = 0; i < NV * 16; i++) sum[i] = lost[i] = 0.0f;
    const int64_t need = rows * NV * 16;
    const bool keep = need <= kScratch;
    if (!keep || p.nv != NV || p.m != m) flush<STREAM>(p, dim);
    while (p.rows) { // room in the ring
        if (p.tail - p.head < kQueue) {
            const int64_t low = p.items[p.head % kQueue].e - p.ring;
            if (p.at > low) {
                if (need <= kRing - p.at) break;
                if (need < low) {
                    p.at = 0;
                    break;
                }
            } else if (need < low - p.at) break;
        }
        front<STREAM>(p, dim);
    }
    if (!p.rows) p.at = 0;
    float *const e = p.ring + p.at;
    for (int64_t done = 0, n; done < rows; done += n) {
        n = std::min<int64_t>(32, rows - done);
        if (!keep) {
            block<NV, false, false, false>(x + done * dim, e, n, dim, m, sum, lost, nullptr, nullptr, nullptr);
        } else if (!p.rows) {
            block<NV, true, false, false>(x + done * dim, e + done * NV * 16, n, dim, m, sum, lost, nullptr, nullptr, nullptr);
        } else {
            auto &q = p.items[p.head % kQueue];
            n = std::min(n, q.rows);
            block<NV, true, true, STREAM>(x + done * dim, e + done * NV * 16, n, dim, m, sum, lost, q.e, q.inv, q.out);
            q.e += n * NV * 16;
            q.out += n * dim;
            q.rows -= n;
            p.rows -= n;
            if (!q.rows) p.head++;
        }
    }
    unsigned bad = 0;
    for (int i = 0; i < NV; i++) {
        const __m512 s = _mm512_load_ps(sum + 16 * i);
        bad |= (unsigned)m & ~(unsigned)(_mm512_cmp_ps_mask(s, _mm512_set1_ps(1e-5f), _CMP_GE_OQ) &
                                         _mm512_cmp_ps_mask(s, _mm512_set1_ps(1e8f), _CMP_LE_OQ));
        _mm512_store_ps(factor + 16 * i, _mm512_div_ps(_mm512_set1_ps(1.0f), s));
    }
    if (bad) return slow(x, out, rows, dim, columns);
    if (!keep) {
        __m512 before = _mm512_setzero_ps();
        for (int64_t r = 0; r < rows; r++) {
            EACH
                emit<I, NV, STREAM>(out + r * dim, m, _mm512_mul_ps(quick(load<NV == 1>(x + r * dim + 16 * I, m)),
                                                                   _mm512_load_ps(factor + 16 * I)), before);
            });
        }
        return;
    }
    auto &q = p.items[p.tail++ % kQueue];
    std::memcpy(q.inv, factor, sizeof factor);
    q.rows = rows;
    q.out = out;
    q.e = e;
    p.rows += rows;
    p.at += need;
    p.nv = NV;
    p.m = m;
}
template <bool STREAM> void segment(const VALUE *x, VALUE *out, int64_t rows, int64_t dim, int64_t columns, State &p) {
    for (int64_t c = 0; c < columns;) {
        const int64_t left = columns - c;
        if (left >= 128) step<8, STREAM>(x + c, out + c, rows, dim, 128, p), c += 128;
        else if (left >= 64) step<4, STREAM>(x + c, out + c, rows, dim, 64, p), c += 64;
        else if (left >= 32) step<2, STREAM>(x + c, out + c, rows, dim, 32, p), c += 32;
        else step<1, STREAM>(x + c, out + c, rows, dim, std::min<int64_t>(left, 16), p), c += 16;
    }
}
INL void zero(VALUE *out, int64_t count) {
    if (count > 0) std::memset((void *)out, 0, (size_t)count * sizeof(VALUE));
}
template <bool STREAM>
void run(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t batch, int64_t dim, int64_t max_length,
         int64_t giant, int64_t *taken, State &p) {
    const int64_t threads = omp_get_num_threads(), id = omp_get_thread_num();
    if (giant < INT64_MAX)
        for (int64_t b = 0; b < batch; b++) {
            const int64_t start = offsets[b], used = std::min<int64_t>(offsets[b + 1] - start, max_length);
            if (used <= giant) continue;
#pragma omp for schedule(dynamic, 1) nowait
            for (int64_t c = 0; c < dim; c += 32)
                segment<STREAM>(values + start * dim + c, out + start * dim + c, used, dim, std::min<int64_t>(32, dim - c), p);
        }
    const int64_t first = offsets[0], rows = offsets[batch] - first, chunk = std::max<int64_t>(1, batch / (threads * 64));
    auto bound = [&](int64_t i) -> int64_t { // the first segment of share i
        if (i <= 0) return 0;
        if (i >= threads) return batch;
        return std::lower_bound(offsets, offsets + batch, (INDEX)(first + rows * i / threads)) - offsets;
    };
    for (int64_t turn = 0; turn < threads; turn++) { // own share first, then what others have left
        const int64_t owner = (id + turn) % threads, begin = bound(owner), end = bound(owner + 1);
        int64_t &next = taken[owner * 8];
        while (true) {
            int64_t b;
#pragma omp atomic capture
            {
                b = next;
                next += chunk;
            }
            b += begin;
            if (b >= end) break;
            for (const int64_t stop = std::min(end, b + chunk); b < stop; b++) {
                const int64_t start = offsets[b], length = offsets[b + 1] - start, used = std::min(length, max_length);
                if (length <= 0) continue;
                if (used > 0 && used <= giant) segment<STREAM>(values + start * dim, out + start * dim, used, dim, dim, p);
                zero(out + (start + used) * dim, (length - used) * dim);
            }
        }
    }
    flush<STREAM>(p, dim);
    if (STREAM) _mm_sfence();
}
} // namespace

extern "C" void jagged_softmax(const VALUE *values, const INDEX *offsets, VALUE *out,
                               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    if (total <= 0 || dim <= 0) return;
    if (batch <= 0 || max_length <= 0) return zero(out, total * dim);
    const int64_t first = offsets[0], last = std::min<int64_t>(offsets[batch], total);
    const bool streaming = 2 * total * dim * (int64_t)sizeof(VALUE) > kStreamBytes && dim % 32 == 0 && (uintptr_t)out % 64 == 0;
    const bool many = total * dim > 16384;
    int64_t giant = INT64_MAX;
    if (many && dim >= 64) {
        const int64_t limit = std::max<int64_t>((last - first) / (8 * omp_get_max_threads()), 65536 / dim);
        int64_t most = 0;
        for (int64_t b = 0; b < batch; b++) most = std::max<int64_t>(most, offsets[b + 1] - offsets[b]);
        if (std::min(most, max_length) > limit) giant = limit;
    }
    std::unique_ptr<int64_t[]> taken(new int64_t[(size_t)omp_get_max_threads() * 8]());
#pragma omp parallel if (many)
    {
        State p;
        if (streaming) run<true>(values, offsets, out, batch, dim, max_length, giant, taken.get(), p);
        else run<false>(values, offsets, out, batch, dim, max_length, giant, taken.get(), p);
#pragma omp single nowait
        {
            zero(out, first * dim);
            zero(out + last * dim, (total - last) * dim);
        }
    }
}
