/* Functions that kernels call: arithmetic with a rounding mode, printing, and what stands for libdevice where it is not
 * installed.  What is not here of libdevice, the C library has under the same name without __nv_. */

/* --------------------------------------------------------------------------------------------------------- rounding */
#define ROUNDED(type, mode, expression)    \
    {                                      \
        int was = fegetround();            \
        fesetround(mode);                  \
        volatile type result = expression; \
        fesetround(was);                   \
        return result;                     \
    }
/* m is NVVM's name of the mode, l libdevice's; t is NVVM's letter of the type, p and s what libdevice has before and
 * behind for it. */
#define ARITHMETIC(type, t, p, s, m, l, mode)                                                                         \
    API type hc_add_##m##_##t(volatile type a, volatile type b) ROUNDED(type, mode, a + b)                            \
    API type hc_mul_##m##_##t(volatile type a, volatile type b) ROUNDED(type, mode, a * b)                            \
    API type hc_div_##m##_##t(volatile type a, volatile type b) ROUNDED(type, mode, a / b)                            \
    API type hc_rcp_##m##_##t(volatile type a) ROUNDED(type, mode, 1 / a)                                             \
    API type hc_sqrt_##m##_##t(volatile type a) ROUNDED(type, mode, sqrt##s(a))                                       \
    API type hc_fma_##m##_##t(volatile type a, volatile type b, volatile type c) ROUNDED(type, mode, fma##s(a, b, c)) \
    API type hc_ll2##t##_##m(volatile int64_t a) ROUNDED(type, mode, a)                                               \
    API type hc_ull2##t##_##m(volatile u64 a) ROUNDED(type, mode, a)                                                  \
    API type __nv_##p##add_##l(type a, type b) { return hc_add_##m##_##t(a, b); }                                     \
    API type __nv_##p##sub_##l(type a, type b) { return hc_add_##m##_##t(a, -b); }                                    \
    API type __nv_##p##mul_##l(type a, type b) { return hc_mul_##m##_##t(a, b); }                                     \
    API type __nv_##p##div_##l(type a, type b) { return hc_div_##m##_##t(a, b); }                                     \
    API type __nv_##p##rcp_##l(type a) { return hc_rcp_##m##_##t(a); }                                                \
    API type __nv_##p##sqrt_##l(type a) { return hc_sqrt_##m##_##t(a); }                                              \
    API type __nv_fma##s##_##l(type a, type b, type c) { return hc_fma_##m##_##t(a, b, c); }
#define CONVERSION(m, l, mode)                                      \
    API float hc_d2f_##m(volatile double a) ROUNDED(float, mode, a) \
    API float __nv_double2float_##l(double a) { return hc_d2f_##m(a); }
#define IN_MODE(m, l, mode)                \
    ARITHMETIC(float, f, f, f, m, l, mode) \
    ARITHMETIC(double, d, d, , m, l, mode) \
    CONVERSION(m, l, mode)
IN_MODE(rn, rn, FE_TONEAREST)
IN_MODE(rz, rz, FE_TOWARDZERO)
IN_MODE(rm, rd, FE_DOWNWARD)
IN_MODE(rp, ru, FE_UPWARD)

#ifdef __FLT16_MANT_DIG__ /* what LLVM calls by itself: resolve() puts hc_ in front */
API _Float16 hc___truncdfhf2(double x) { return x; }
API _Float16 hc___truncsfhf2(float x) { return x; }
API float hc___extendhfsf2(_Float16 x) { return x; }
#endif

API u32 hc_prmt(u32 a, u32 b, u32 selector) { /* four bytes of eight, each or only its sign */
    u64 bytes = a | (u64)b << 32;
    u32 result = 0;
    for (int i = 0; i < 4; i++) {
        u32 n = selector >> 4 * i & 15, byte = bytes >> 8 * (n & 7) & 255;
        if (n & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}

/* -------------------------------------------------------------------------------------------------------- libdevice */
API int __nv_abs(int a) { return a < 0 ? -(u32)a : (u32)a; }
API int64_t __nv_llabs(int64_t a) { return a < 0 ? -(u64)a : (u64)a; }
API int __nv_clz(u32 a) { return a ? __builtin_clz(a) : 32; }
API int __nv_clzll(u64 a) { return a ? __builtin_clzl(a) : 64; }
API int __nv_popc(u32 a) { return __builtin_popcount(a); }
API int __nv_popcll(u64 a) { return __builtin_popcountl(a); }
API u64 __nv_brevll(u64 a) {
    u64 result = 0;
    for (int i = 0; i < 64; i++) result |= (a >> i & 1) << (63 - i);
    return result;
}
API u32 __nv_brev(u32 a) { return __nv_brevll(a) >> 32; }
API int __nv_mulhi(int a, int b) { return (int64_t)a * b >> 32; }
API u32 __nv_umulhi(u32 a, u32 b) { return (u64)a * b >> 32; }
API int64_t __nv_mul64hi(int64_t a, int64_t b) { return (__int128)a * b >> 64; }
API u64 __nv_umul64hi(u64 a, u64 b) { return (unsigned __int128)a * b >> 64; }

#define EXTREMES(type, p)                                            \
    API type __nv_##p##min(type a, type b) { return a < b ? a : b; } \
    API type __nv_##p##max(type a, type b) { return a > b ? a : b; }
EXTREMES(int, )
EXTREMES(u32, u)
EXTREMES(int64_t, ll)
EXTREMES(u64, ull)

#define FLOATS(type, s, t)                                                         \
    API int __nv_isnan##t(type a) { return a != a; }                               \
    API int __nv_isinf##t(type a) { return isinf(a) != 0; }                        \
    API int __nv_signbit##t(type a) { return signbit(a) != 0; }                    \
    API type __nv_rsqrt##s(type a) { return 1 / sqrt##s(a); }                      \
    API type __nv_rcbrt##s(type a) { return 1 / cbrt##s(a); }                      \
    API type __nv_powi##s(type a, int b) { return pow##s(a, b); }                  \
    API type __nv_normcdf##s(type a) { return erfc##s(-a * (type)M_SQRT1_2) / 2; } \
    API void __nv_sincos##s(type a, type *sine, type *cosine) {                    \
        *sine = sin##s(a);                                                         \
        *cosine = cos##s(a);                                                       \
    }
FLOATS(float, f, f)
FLOATS(double, , d)
API int __nv_finitef(float a) { return isfinite(a); }
API int __nv_isfinited(double a) { return isfinite(a); }
API float __nv_saturatef(float a) { return a > 0 ? fminf(a, 1) : 0; }
API float __nv_fast_fdividef(float a, float b) { return a / b; }
API float __nv_fast_powf(float a, float b) { return powf(a, b); }

#define FAST(name) API float __nv_fast_##name(float a) { return name(a); }
FAST(expf)
FAST(logf)
FAST(log2f)
FAST(log10f)
FAST(sinf)
FAST(cosf)
FAST(tanf)

/* --------------------------------------------------------------------------------------------------------- printing */
API int hc_print(const char *format, const char *arguments) { /* these are packed as a C structure */
    size_t at = 0;
    for (const char *p = format; *p; p++) {
        if (*p != '%' || p[1] == '%') {
            putchar(*p);
            p += *p == '%';
            continue;
        }
        size_t length = strcspn(p, "diouxXcfFeEgGaAsp") + 1;
        char one[64] = {0};
        memcpy(one, p, length < 63 ? length : 63);
        char kind = one[strlen(one) - 1];
        int is_float = strchr("fFeEgGaA", kind) != 0, is_pointer = kind == 's' || kind == 'p';
        size_t size = is_float || is_pointer || strpbrk(one, "lzj") ? 8 : 4;
        at = (at + size - 1) & -size;
        u64 value = 0;
        memcpy(&value, arguments + at, size);
        at += size;
        double number;
        memcpy(&number, &value, 8);
        if (is_float) printf(one, number);
        else if (is_pointer) printf(one, (void *)value);
        else if (size == 8) printf(one, value);
        else printf(one, (int)value);
        p += length - 1;
    }
    return 0;
}
