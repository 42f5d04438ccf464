/* inbox.c - parcels: who holds which. */
#include "alloc/core/central/inbox.h"

/* The parcel, which has `count` blocks, is the caller's now. */
static bool hold(na_parcel_t *parcel, uint16_t count) {
    return atomic_compare_exchange_strong_explicit(&parcel->count, &count, NA_PARCEL_HELD,
                                                   memory_order_acquire, memory_order_relaxed);
}

na_parcel_t *na_inbox_open(na_inbox_t *inbox) {
    for (unsigned i = 0; i < NA_INBOX_PARCELS; i++) {
        na_parcel_t *parcel = &inbox->parcels[i];
        if (atomic_load_explicit(&parcel->count, memory_order_relaxed) == 0 && hold(parcel, 0))
            return parcel;
    }
    return NULL;
}

void na_inbox_post(na_inbox_t *inbox, na_parcel_t *parcel, unsigned count) {
    uint32_t number = (uint32_t)(parcel - inbox->parcels) + 1;
    uint32_t used = atomic_load_explicit(&inbox->used, memory_order_relaxed);
    while (used < number &&
           !atomic_compare_exchange_weak_explicit(&inbox->used, &used, number, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
    atomic_store_explicit(&parcel->seen, false, memory_order_relaxed);
    atomic_store_explicit(&parcel->count, (uint16_t)count, memory_order_release);
}

na_parcel_t *na_inbox_take(na_inbox_t *inbox, unsigned *at, bool idle, unsigned *count) {
    uint32_t used = atomic_load_explicit(&inbox->used, memory_order_relaxed);
    while (*at < used) {
        na_parcel_t *parcel = &inbox->parcels[(*at)++];
        uint16_t has = atomic_load_explicit(&parcel->count, memory_order_relaxed);
        if (has == 0 || has == NA_PARCEL_HELD) continue;
        if (idle && !atomic_exchange_explicit(&parcel->seen, true, memory_order_relaxed)) continue;
        if (!hold(parcel, has)) continue;
        *count = has;
        return parcel;
    }
    return NULL;
}
