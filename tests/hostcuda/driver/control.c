/* What the Python side calls.  These do not count as calls of the driver. */

#define HELD __attribute__((cleanup(leave), unused)) int entered = (take_lock(), 1)

API const char *hostcuda_names(void) { return stats_names; }
API const u64 *hostcuda_stats(void) { return (const u64 *)&stats; }
API const char *hostcuda_last_error(void) { return last_error; }
API const Tally *hostcuda_tally(int which) { return tallies[which]; }

API void hostcuda_reset_stats(void) {
    HELD;
    memset(&stats.peak, 0, sizeof stats - ((char *)&stats.peak - (char *)&stats)); /* it is the first of HAPPENED */
    stats.peak = stats.bytes;
    for (int i = 0; i < 2; i++)
        for (Tally *t = tallies[i]; t; t = t->next) t->n = 0;
}

API void hostcuda_fail_alloc(u64 n, u64 count) { /* n 0: no more */
    HELD;
    fail_from = attempts + n;
    fail_to = !n ? 0 : count ? fail_from + count : ~0ull;
}

API void hostcuda_clear_error(void) {
    HELD;
    for (Context *c = contexts; c; c = c->next) c->error = 0;
    while (captures) drop_capture(captures);
}

API void hostcuda_drain(void) {
    HELD;
    wait_for_all(0);
    trim_at_wait();
}

API void hostcuda_libdevice(const char *path) { libdevice_path = strdup(path); }

static int *find_switch(const char *key) {
    for (size_t i = 0; i < COUNT_OF(switches); i++)
        if (!strcmp(key, switches[i].name)) return switches[i].value;
    return 0;
}

API int hostcuda_set(const char *key, const char *value) {
    HELD;
    int *number = find_switch(key);
    wait_for_all(0); /* nothing of the old mode is left behind */
    if (!strcmp(key, "HOSTCUDA_ASYNC")) read_async(value);
    else if (!strcmp(key, "HOSTCUDA_ORDER")) read_order(value);
    else if (!strcmp(key, "HOSTCUDA_SEED")) set_seed(strtoull(value, 0, 0));
    else if (!number) return 0;
    else *number = strtol(value, 0, 0);
    for (size_t i = 0; number == &options.protect && i < live.n; i++) protect(live.item[i]);
    return 1;
}

API int hostcuda_get(const char *key, char *out, int size) { /* as hostcuda_set takes it */
    HELD;
    int *number = find_switch(key);
    if (!strcmp(key, "HOSTCUDA_ASYNC")) snprintf(out, size, "%s", async_names[options.async]);
    else if (!strcmp(key, "HOSTCUDA_ORDER")) snprintf(out, size, "%s", order_names[options.order]);
    else if (!strcmp(key, "HOSTCUDA_SEED")) snprintf(out, size, "%lu", options.seed);
    else if (number) snprintf(out, size, "%d", *number);
    else return 0;
    return 1;
}
