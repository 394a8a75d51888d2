/* What the native rivals of the dataflow workloads share. C and C++.
 *
 * A lattice of cells and tasks that fill it, the same as in src/lattice.rs, which says what they compute:
 *
 *     grid    rows × columns cells; a task for each, after the one above it and the one to the left
 *     chains  rows cells; columns tasks for each, one after the other
 *
 * A program is called as `PROGRAM grid|chains WORKERS ROUNDS ROWS COLUMNS STEPS`, and prints the checksum of the
 * cells, then nanoseconds: of one task's work, alone on a core, and what the program's own head says. The caller
 * knows the right checksum.
 */

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>

/* A cell to itself: two lines of memory, since the prefetcher fetches pairs. */
struct cell {
    uint64_t value;
    char rest[120];
};

struct lattice {
    int chains, workers, rounds;
    long rows, columns;
    uint32_t steps;
    struct cell *cells;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* Computes dependent steps: `private_work` of src/calibrate.rs, with the same instructions. */
static __attribute__((noinline)) uint64_t work(uint64_t value, uint32_t steps) {
    for (; steps; steps--) {
        value = value * 0x9E3779B97F4A7C15 + 1;
        __asm__ volatile("" : "+m"(value));
    }
    return value;
}

/* How long that takes alone on a core: the best of some tries, as in src/calibrate.rs. */
static double time_work(uint32_t steps) {
    long calls = 500000 / (steps + 4);
    if (calls < 20) calls = 20;
    double best = 1e18;
    uint64_t value = 1;
    for (int again = 0; again < 5; again++) {
        double start = now();
        for (long call = 0; call < calls; call++) value = work(value, steps);
        double took = (now() - start) / calls;
        if (took < best) best = took;
    }
    __asm__ volatile("" : : "r"(value));
    return best;
}

/* The body of a task of a grid. */
static inline void grid_task(struct cell *cell, const struct cell *above, const struct cell *left, uint32_t steps) {
    cell->value = work(3 * cell->value + above->value + left->value, steps);
}

/* The body of a task of a chain. */
static inline void chain_task(struct cell *cell, uint64_t number, uint32_t steps) {
    cell->value = work(3 * cell->value + number, steps);
}

/* Cells that a lattice has: a grid has a border above and to the left. */
static long cells_of(const struct lattice *lattice) {
    return lattice->chains ? lattice->rows : (lattice->rows + 1) * (lattice->columns + 1);
}

static void reset(struct lattice *lattice) {
    for (long cell = 0; cell < cells_of(lattice); cell++) lattice->cells[cell].value = 1;
}

/* Prints what all programs do. */
static void begin_line(const struct lattice *lattice) {
    uint64_t sum = 0;
    for (long cell = 0; cell < cells_of(lattice); cell++) sum = sum * 31 + lattice->cells[cell].value;
    printf("%" PRIu64 " %.3f", sum, lattice->steps ? time_work(lattice->steps) : 0.0);
}

/* The lattice of the arguments, with its cells. */
static struct lattice lattice_of(int count, char **arguments) {
    /* The caller is killed when this takes too long: end with it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (count != 7) {
        fprintf(stderr, "usage: %s grid|chains WORKERS ROUNDS ROWS COLUMNS STEPS\n", arguments[0]);
        exit(2);
    }
    struct lattice lattice;
    lattice.chains = !strcmp(arguments[1], "chains");
    lattice.workers = atoi(arguments[2]);
    lattice.rounds = atoi(arguments[3]);
    lattice.rows = atol(arguments[4]);
    lattice.columns = atol(arguments[5]);
    lattice.steps = (uint32_t)atol(arguments[6]);
    lattice.cells = (struct cell *)aligned_alloc(128, cells_of(&lattice) * sizeof(struct cell));
    if (!lattice.cells) {
        fprintf(stderr, "no memory for %ld cells\n", cells_of(&lattice));
        exit(1);
    }
    return lattice;
}
