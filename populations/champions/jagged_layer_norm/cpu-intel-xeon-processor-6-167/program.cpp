#include "kevolve.h"
#include <immintrin.h>
#include <omp.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#pragma GCC target("avx512bf16")
#define INL inline __attribute__((always_inline))

namespace {

constexpr bool kHalf = sizeof(VALUE) == 2;
constexpr bool kAhead = false; // fetch what follows while writing
constexpr int64_t kLine = 64 / sizeof(VALUE);

struct Sums {
    double a, b;
};
struct alignas(64) Slot {
    Sums head, tail;
    int ready;
};
struct Form { // out = (x - shift) * scale + bias
    float shift, scale, bias;
    bool fine;
};

INL __mmask16 mask_of(int64_t n) { return n >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1); }
INL __m512 load16(const VALUE *p, __mmask16 m) {
    if constexpr (kHalf)
        return _mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, (const void *)p)), 16));
    else
        return _mm512_maskz_loadu_ps(m, (const void *)p);
}
INL __m512i rounded(__m512 v) { // finite numbers only; the upper halves are the bfloat16
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
}
INL void store16(VALUE *p, __mmask16 m, __m512 v) {
    if constexpr (kHalf)
        _mm256_mask_storeu_epi16((void *)p, m, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(v), 16)));
    else
        _mm512_mask_storeu_ps((void *)p, m, v);
}
// 64 bytes as one or two vectors; of bfloat16 the even and the odd elements
INL void split(const VALUE *p, __m512 &x, __m512 &y) {
    const __m512i v = _mm512_loadu_si512((const void *)p);
    x = _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
    y = _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32((int)0xffff0000u)));
}
INL void load64(const VALUE *p, __m512 &x0, __m512 &x1, __m512 &x2, __m512 &x3) {
    if constexpr (kHalf) {
        split(p, x0, x1);
        split(p + 32, x2, x3);
    } else {
        x0 = _mm512_loadu_ps((const void *)p);
        x1 = _mm512_loadu_ps((const void *)(p + 16));
        x2 = _mm512_loadu_ps((const void *)(p + 32));
        x3 = _mm512_loadu_ps((const void *)(p + 48));
    }
}
template <bool STREAM> INL void put(VALUE *p, __m512i v) { // aligned
    if constexpr (STREAM) _mm512_stream_si512((__m512i *)(void *)p, v);
    else _mm512_store_si512((void *)p, v);
}
INL __m512i join(__m512 even, __m512 odd) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                           5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}
template <bool STREAM> INL void store64(VALUE *p, __m512 y0, __m512 y1, __m512 y2, __m512 y3) {
    if constexpr (kHalf) {
        put<STREAM>(p, join(y0, y1));
        put<STREAM>(p + 32, join(y2, y3));
    } else {
        put<STREAM>(p, _mm512_castps_si512(y0));
        put<STREAM>(p + 16, _mm512_castps_si512(y1));
        put<STREAM>(p + 32, _mm512_castps_si512(y2));
        put<STREAM>(p + 48, _mm512_castps_si512(y3));
    }
}
INL void fold(__m512d &t, __m512 v) {
    t = _mm512_add_pd(t, _mm512_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(v)),
                                       _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))));
}

// sums of x - shift and of its square; float lanes, folded into double every 8192 elements
__attribute__((noinline)) Sums moments(const VALUE *p, int64_t n, float shift) {
    const __m512 k = _mm512_set1_ps(shift), zero = _mm512_setzero_ps();
    __m512d a = _mm512_setzero_pd(), b = _mm512_setzero_pd();
    int64_t i = 0;
    while (n - i >= 64) {
        const int64_t stop = i + std::min<int64_t>(8192, (n - i) & ~(int64_t)63);
        __m512 a0 = zero, a1 = zero, a2 = zero, a3 = zero, b0 = zero, b1 = zero, b2 = zero, b3 = zero;
        for (; i < stop; i += 64) {
            __m512 x0, x1, x2, x3;
            load64(p + i, x0, x1, x2, x3);
            for (int64_t j = 0; j < 64; j += kLine)
                _mm_prefetch((const char *)(const void *)(p + i) + 4096 + j * sizeof(VALUE), _MM_HINT_T0);
            x0 = _mm512_sub_ps(x0, k);
            x1 = _mm512_sub_ps(x1, k);
            x2 = _mm512_sub_ps(x2, k);
            x3 = _mm512_sub_ps(x3, k);
            a0 = _mm512_add_ps(a0, x0);
            a1 = _mm512_add_ps(a1, x1);
            a2 = _mm512_add_ps(a2, x2);
            a3 = _mm512_add_ps(a3, x3);
            b0 = _mm512_fmadd_ps(x0, x0, b0);
            b1 = _mm512_fmadd_ps(x1, x1, b1);
            b2 = _mm512_fmadd_ps(x2, x2, b2);
            b3 = _mm512_fmadd_ps(x3, x3, b3);
        }
        fold(a, _mm512_add_ps(_mm512_add_ps(a0, a1), _mm512_add_ps(a2, a3)));
        fold(b, _mm512_add_ps(_mm512_add_ps(b0, b1), _mm512_add_ps(b2, b3)));
    }
    if (i < n) {
        __m512 a0 = zero, b0 = zero;
        for (; i < n; i += 16) {
            const __mmask16 m = mask_of(n - i);
            const __m512 x = _mm512_maskz_sub_ps(m, load16(p + i, m), k);
            a0 = _mm512_add_ps(a0, x);
            b0 = _mm512_fmadd_ps(x, x, b0);
        }
        fold(a, a0);
        fold(b, b0);
    }
    return {_mm512_reduce_add_pd(a), _mm512_reduce_add_pd(b)};
}

INL float shift_of(const VALUE *p, int64_t n) {
    if (n < 16) return (float)p[0];
    return _mm512_reduce_add_ps(load16(p, 0xffff)) * 0.0625f;
}
INL Form form_of(Sums s, int64_t n, float shift) {
    const double d = s.a / (double)n, variance = s.b / (double)n - d * d;
    Form f;
    f.fine = d * d <= 16.0 * (variance + 1e-6) && variance < 1e36;
    const double inverse = 1.0 / std::sqrt(std::max(variance, 0.0) + 1e-6);
    f.shift = shift;
    f.scale = (float)inverse;
    f.bias = (float)(-d * inverse);
    return f;
}

template <bool STREAM> __attribute__((noinline)) void write(const VALUE *p, VALUE *o, int64_t n, Form f) {
    const __m512 k = _mm512_set1_ps(f.shift), s = _mm512_set1_ps(f.scale), c = _mm512_set1_ps(f.bias);
    int64_t i = 0;
    const int64_t lead = std::min<int64_t>(n, (int64_t)((64 - (uintptr_t)o % 64) % 64 / sizeof(VALUE)));
    for (; i < lead; i += 16) {
        const __mmask16 m = mask_of(lead - i);
        store16(o + i, m, _mm512_fmadd_ps(_mm512_sub_ps(load16(p + i, m), k), s, c));
    }
    i = lead;
    const VALUE *next = p + n;
    for (; i + 64 <= n; i += 64) {
        __m512 x0, x1, x2, x3;
        load64(p + i, x0, x1, x2, x3);
        if constexpr (kAhead) {
            for (int64_t j = 0; j < 64; j += kLine) _mm_prefetch((const char *)(const void *)(next + i + j), _MM_HINT_T1);
        }
        x0 = _mm512_fmadd_ps(_mm512_sub_ps(x0, k), s, c);
        x1 = _mm512_fmadd_ps(_mm512_sub_ps(x1, k), s, c);
        x2 = _mm512_fmadd_ps(_mm512_sub_ps(x2, k), s, c);
        x3 = _mm512_fmadd_ps(_mm512_sub_ps(x3, k), s, c);
        store64<STREAM>(o + i, x0, x1, x2, x3);
    }
    for (; i < n; i += 16) {
        const __mmask16 m = mask_of(n - i);
        store16(o + i, m, _mm512_fmadd_ps(_mm512_sub_ps(load16(p + i, m), k), s, c));
    }
}

// the sums of [p, p + n) while [q, q + count) is written to o
template <bool STREAM>
__attribute__((noinline)) Sums both(const VALUE *p, int64_t n, float shift, const VALUE *q, VALUE *o, int64_t count,
                                    Form f) {
    const __m512 k = _mm512_set1_ps(f.shift), s = _mm512_set1_ps(f.scale), c = _mm512_set1_ps(f.bias);
    const __m512 h = _mm512_set1_ps(shift), zero = _mm512_setzero_ps();
    const int64_t lead = std::min<int64_t>(count, (int64_t)((64 - (uintptr_t)o % 64) % 64 / sizeof(VALUE)));
    if (lead) {
        write<STREAM>(q, o, lead, f);
        q += lead;
        o += lead;
        count -= lead;
    }
    const int64_t common = std::min(n, count) & ~(int64_t)63;
    __m512d a = _mm512_setzero_pd(), b = _mm512_setzero_pd();
    int64_t i = 0;
    while (i < common) {
        const int64_t stop = std::min<int64_t>(common, i + 8192);
        __m512 a0 = zero, a1 = zero, a2 = zero, a3 = zero, b0 = zero, b1 = zero, b2 = zero, b3 = zero;
        for (; i < stop; i += 64) {
            __m512 x0, x1, x2, x3;
            load64(p + i, x0, x1, x2, x3);
            for (int64_t j = 0; j < 64; j += kLine)
                _mm_prefetch((const char *)(const void *)(p + i) + 4096 + j * sizeof(VALUE), _MM_HINT_T0);
            x0 = _mm512_sub_ps(x0, h);
            x1 = _mm512_sub_ps(x1, h);
            x2 = _mm512_sub_ps(x2, h);
            x3 = _mm512_sub_ps(x3, h);
            a0 = _mm512_add_ps(a0, x0);
            a1 = _mm512_add_ps(a1, x1);
            a2 = _mm512_add_ps(a2, x2);
            a3 = _mm512_add_ps(a3, x3);
            b0 = _mm512_fmadd_ps(x0, x0, b0);
            b1 = _mm512_fmadd_ps(x1, x1, b1);
            b2 = _mm512_fmadd_ps(x2, x2, b2);
            b3 = _mm512_fmadd_ps(x3, x3, b3);
            load64(q + i, x0, x1, x2, x3);
            x0 = _mm512_fmadd_ps(_mm512_sub_ps(x0, k), s, c);
            x1 = _mm512_fmadd_ps(_mm512_sub_ps(x1, k), s, c);
            x2 = _mm512_fmadd_ps(_mm512_sub_ps(x2, k), s, c);
            x3 = _mm512_fmadd_ps(_mm512_sub_ps(x3, k), s, c);
            if (STREAM && ((uintptr_t)(o + i) & 4095) < 64 * sizeof(VALUE)) // the next page's translation
                _mm_prefetch((const char *)(const void *)(o + i) + 6144, _MM_HINT_T0);
            store64<STREAM>(o + i, x0, x1, x2, x3);
        }
        fold(a, _mm512_add_ps(_mm512_add_ps(a0, a1), _mm512_add_ps(a2, a3)));
        fold(b, _mm512_add_ps(_mm512_add_ps(b0, b1), _mm512_add_ps(b2, b3)));
    }
    Sums sums = moments(p + common, n - common, shift);
    sums.a += _mm512_reduce_add_pd(a);
    sums.b += _mm512_reduce_add_pd(b);
    if (count > common) write<STREAM>(q + common, o + common, count - common, f);
    return sums;
}

// NaN, infinities, sums out of range, a shift far from the mean: two passes in double. Writes [from, to).
__attribute__((noinline)) void careful(const VALUE *p, VALUE *o, int64_t n, int64_t from, int64_t to) {
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)(float)p[i];
    const double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)(float)p[i] - mean;
        squares += x * x;
    }
    const double variance = squares / (double)n;
    if (!(variance < 1e300)) {
        for (int64_t i = from; i < to; i++) o[i] = NAN;
        return;
    }
    const double inverse = 1.0 / std::sqrt(variance + 1e-6);
    for (int64_t i = from; i < to; i++) o[i] = (float)(((double)(float)p[i] - mean) * inverse);
}

INL void zero(VALUE *o, int64_t count) {
    if (count > 0) std::memset((void *)o, 0, (size_t)count * sizeof(VALUE));
}

template <bool STREAM>
INL void emit(const VALUE *p, VALUE *o, int64_t n, int64_t from, int64_t to, const Form &f) {
    if (__builtin_expect(f.fine, 1)) write<STREAM>(p + from, o + from, to - from, f);
    else careful(p, o, n, from, to);
}

template <bool STREAM>
void work(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t batch, int64_t dim, Slot *slots, int64_t id,
          int64_t threads) {
    const int64_t begin = (int64_t)offsets[0] * dim, end = (int64_t)offsets[batch] * dim;
    const int64_t elements = end - begin;
    auto cut = [&](int64_t t) { return t >= threads ? end : begin + elements * t / threads / 64 * 64; };
    auto owner = [&](int64_t row) {
        return (int64_t)(std::upper_bound(offsets, offsets + batch + 1, (INDEX)row) - offsets) - 1;
    };
    const int64_t lo = cut(id), hi = cut(id + 1);
    if (lo >= hi) {
        __atomic_store_n(&slots[id].ready, 1, __ATOMIC_RELEASE);
        return;
    }
    // parts of segments that other threads share: their sums first, so that nobody has to wait
    int64_t b = owner(lo / dim), head = -1, tail = -1;
    if ((int64_t)offsets[b] * dim < lo) {
        head = b++;
        const int64_t s = (int64_t)offsets[head] * dim, e = (int64_t)offsets[head + 1] * dim;
        slots[id].head = moments(values + lo, std::min(e, hi) - lo, shift_of(values + s, e - s));
    }
    if (hi < end) {
        const int64_t t = owner(hi / dim), s = (int64_t)offsets[t] * dim, e = (int64_t)offsets[t + 1] * dim;
        if (s < hi && s >= lo) {
            tail = t;
            slots[id].tail = moments(values + s, hi - s, shift_of(values + s, e - s));
        }
    }
    __atomic_store_n(&slots[id].ready, 1, __ATOMIC_RELEASE);

    int64_t s = (int64_t)offsets[b] * dim, old = s; // [old, s) is waiting to be written
    Form f = {0.0f, 0.0f, 0.0f, true};
    for (; b < batch; b++) {
        const int64_t e = (int64_t)offsets[b + 1] * dim;
        if (e > hi) break;
        if (e > s) {
            const float shift = shift_of(values + s, e - s);
            Sums sums;
            if (s > old && f.fine) {
                sums = both<STREAM>(values + s, e - s, shift, values + old, out + old, s - old, f);
            } else {
                if (s > old) careful(values + old, out + old, s - old, 0, s - old);
                sums = moments(values + s, e - s, shift);
            }
            f = form_of(sums, e - s, shift);
            old = s;
        }
        s = e;
    }
    if (s > old) emit<STREAM>(values + old, out + old, s - old, 0, s - old, f);

    for (int64_t which : {head, tail}) {
        if (which < 0) continue;
        const int64_t s = (int64_t)offsets[which] * dim, e = (int64_t)offsets[which + 1] * dim;
        Sums sums = {0.0, 0.0};
        for (int64_t t = 0; t < threads; t++) {
            const int64_t l = cut(t), h = cut(t + 1);
            if (l >= h || h <= s || l >= e) continue;
            while (!__atomic_load_n(&slots[t].ready, __ATOMIC_ACQUIRE)) _mm_pause();
            const Sums part = s < l ? slots[t].head : slots[t].tail;
            sums.a += part.a;
            sums.b += part.b;
        }
        emit<STREAM>(values + s, out + s, e - s, std::max(s, lo) - s, std::min(e, hi) - s,
                     form_of(sums, e - s, shift_of(values + s, e - s)));
    }
    if (STREAM) _mm_sfence();
}

// finished segments whose results are not written yet; the sums of the next ones are taken in the same loop
template <bool STREAM> struct Trail {
    static constexpr int64_t kRing = 32;
    struct Done {
        int64_t s, e;
        Form f;
    };
    const VALUE *values;
    VALUE *out;
    int64_t target, put = 0, got = 0, backlog = 0;
    bool filled = false;
    Done ring[kRing];
    INL void drop() {
        const Done &d = ring[got++ % kRing];
        emit<STREAM>(values + d.s, out + d.s, d.e - d.s, 0, d.e - d.s, d.f);
        backlog -= d.e - d.s;
    }
    void add(int64_t s, int64_t e) {
        const float shift = shift_of(values + s, e - s);
        Sums sums = {0.0, 0.0};
        for (int64_t at = s; at < e;) {
            Sums part;
            int64_t piece = e - at;
            if (filled && got < put) {
                Done &d = ring[got % kRing];
                if (!d.f.fine) {
                    drop();
                    continue;
                }
                int64_t count = d.e - d.s;
                if (piece < count && count - piece >= 1024) count = piece;
                if (count < piece && piece - count >= 1024) piece = count;
                part = both<STREAM>(values + at, piece, shift, values + d.s, out + d.s, count, d.f);
                d.s += count;
                backlog -= count;
                if (d.s == d.e) got++;
            } else {
                part = moments(values + at, piece, shift);
            }
            sums.a += part.a;
            sums.b += part.b;
            at += piece;
        }
        while (got < put && (put - got == kRing || backlog > 98304)) drop();
        ring[put++ % kRing] = {s, e, form_of(sums, e - s, shift)};
        backlog += e - s;
        filled |= backlog > target;
    }
};

struct alignas(64) Range {
    uint64_t free; // segments [low half, high half)
};
template <bool STREAM>
void steal(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t dim, Range *ranges, int64_t id,
           int64_t threads, int64_t elements) {
    constexpr int64_t grain = 12288;
    int64_t victim = 0;
    uint64_t *range = &ranges[id].free;
    Trail<STREAM> trail;
    trail.values = values;
    trail.out = out;
    trail.target = std::min<int64_t>(24576, elements / threads / 8);
    uint64_t seen = __atomic_load_n(range, __ATOMIC_RELAXED);
    for (;;) {
        const int64_t lo = (int64_t)(seen & 0xffffffffu), hi = (int64_t)(seen >> 32);
        if (lo >= hi) { // the own share is done: take from the ends of the others'
            if (++victim >= threads) break;
            range = &ranges[(id + victim) % threads].free;
            seen = __atomic_load_n(range, __ATOMIC_RELAXED);
            continue;
        }
        const bool back = victim > 0;
        int64_t a = lo, z = hi;
        if (back) {
            a = hi - 1;
            while (a > lo && ((int64_t)offsets[hi] - (int64_t)offsets[a - 1]) * dim <= grain) a--;
        } else {
            z = lo + 1;
            while (z < hi && ((int64_t)offsets[z + 1] - (int64_t)offsets[lo]) * dim <= grain) z++;
        }
        const uint64_t want = back ? ((uint64_t)a << 32 | (uint64_t)lo) : ((uint64_t)hi << 32 | (uint64_t)z);
        if (!__atomic_compare_exchange_n(range, &seen, want, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
        int64_t s = (int64_t)offsets[a] * dim;
        for (int64_t b = a; b < z; b++) {
            const int64_t e = (int64_t)offsets[b + 1] * dim;
            if (e > s) trail.add(s, e);
            s = e;
        }
        seen = __atomic_load_n(range, __ATOMIC_RELAXED);
    }
    while (trail.got < trail.put) trail.drop();
    if (STREAM) _mm_sfence();
}

} // namespace

extern "C" void jagged_layer_norm(const VALUE *values, const INDEX *offsets, VALUE *out,
                                  int64_t batch, int64_t total, int64_t dim) {
    if (total <= 0 || dim <= 0) return;
    if (batch <= 0) {
        zero(out, total * dim);
        return;
    }
    const int64_t first = offsets[0], last = offsets[batch];
    Slot slots[128];
    for (Slot &slot : slots) slot.ready = 0;
    const bool many = total * dim > 32768 && omp_get_max_threads() <= 128;
    const bool streaming = 2 * total * dim * (int64_t)sizeof(VALUE) > ((int64_t)2 << 20);
    int64_t longest = 0;
    for (int64_t b = 0; b < batch; b++) longest = std::max(longest, (int64_t)offsets[b + 1] - (int64_t)offsets[b]);
    const bool even = batch < ((int64_t)1 << 31) && longest * 4 * omp_get_max_threads() <= last - first && omp_get_max_threads() <= 128;
    Range ranges[128];
    const int64_t shares = omp_get_max_threads();
    auto border = [&](int64_t t) {
        if (t <= 0 || t >= shares) return t <= 0 ? (int64_t)0 : batch;
        return (int64_t)(std::lower_bound(offsets, offsets + batch, (INDEX)(first + (last - first) * t / shares)) - offsets);
    };
    for (int64_t t = 0; t < 128; t++) ranges[t].free = even && t < shares ? (uint64_t)border(t + 1) << 32 | (uint64_t)border(t) : 0;
    alignas(64) int64_t done[8] = {0};
#pragma omp parallel if (many)
    {
        const int64_t threads = omp_get_num_threads(), id = omp_get_thread_num();
        if (even && streaming) steal<true>(values, offsets, out, dim, ranges, id, shares, (last - first) * dim);
        else if (even) steal<false>(values, offsets, out, dim, ranges, id, shares, (last - first) * dim);
        else if (streaming) work<true>(values, offsets, out, batch, dim, slots, id, threads);
        else work<false>(values, offsets, out, batch, dim, slots, id, threads);
        if (id == 0) zero(out, first * dim);
        const int64_t spare = (total - last) * dim, from = spare * id / threads, to = spare * (id + 1) / threads;
        zero(out + last * dim + from, to - from);
        if (id) __atomic_fetch_add(done, 1, __ATOMIC_RELEASE);
        else
            for (int64_t spin = 0; spin < 4000 && __atomic_load_n(done, __ATOMIC_ACQUIRE) < threads - 1; spin++) _mm_pause();
    }
}
