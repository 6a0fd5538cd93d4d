/* The worst DMA engine that the hooks allow: a copy is made when it is waited for and not before, and until then what it
 * will write holds garbage. Copies without a wait of their own are never made. */
#include <stdlib.h>
#include "tilewright.h"

enum { MOST = 1024, DIMS = 8 };
static struct { tw_copy copy; int64_t extents[DIMS], targets[DIMS], sources[DIMS]; } queue[MOST];
static int64_t outstanding, longest;

static void walk(const tw_copy *c, int garbage)
{
    int64_t at[DIMS] = {0}, k;
    for (k = 0; k < c->dims; k++)
        if (c->extents[k] <= 0)
            return;
    for (;;) {
        char *target = c->target;
        const char *source = c->source;
        for (k = 0; k < c->dims; k++) {
            target += at[k] * c->target_strides[k];
            source += at[k] * c->source_strides[k];
        }
        if (garbage)
            memset(target, 0xa5, (size_t)c->element);
        else
            memcpy(target, source, (size_t)c->element);
        for (k = c->dims - 1; k >= 0 && ++at[k] == c->extents[k]; k--)
            at[k] = 0;
        if (k < 0)
            return;
    }
}

void tw_dma_start(const tw_copy *copy)
{
    size_t n = sizeof(int64_t) * (size_t)copy->dims;
    int64_t k = outstanding++;
    if (outstanding > MOST || copy->dims > DIMS)
        abort();
    queue[k].copy = *copy;
    memcpy(queue[k].extents, copy->extents, n);
    memcpy(queue[k].targets, copy->target_strides, n);
    memcpy(queue[k].sources, copy->source_strides, n);
    walk(copy, 1);
    longest = outstanding > longest ? outstanding : longest;
}

void tw_dma_wait(int32_t number, int32_t slot)
{
    int64_t k, kept = 0;
    for (k = 0; k < outstanding; k++) {
        tw_copy c = queue[k].copy;
        c.extents = queue[k].extents;
        c.target_strides = queue[k].targets;
        c.source_strides = queue[k].sources;
        if (c.number == number && c.slot == slot)
            walk(&c, 0);
        else
            queue[kept++] = queue[k];
    }
    outstanding = kept;
}

/* How many copies were under way at most since the last call, and how many still are (times a million). */
int64_t late_dma(void)
{
    int64_t out = longest + outstanding * 1000000;
    longest = outstanding = 0;
    return out;
}
