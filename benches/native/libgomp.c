/* Dataflow by OpenMP tasks: one thread makes them all, `depend` clauses order them.
 *
 * Prints, after the checksum and the work of a task: nanoseconds from the first task made to the last one over.
 * ROUNDS is without meaning: tasks cannot be kept.
 */

#include "lattice.h"

static void make_grid(struct lattice *lattice) {
    struct cell *cells = lattice->cells;
    long width = lattice->columns + 1;
    uint32_t steps = lattice->steps;
    for (long row = 1; row <= lattice->rows; row++) {
        for (long column = 1; column <= lattice->columns; column++) {
            struct cell *cell = &cells[row * width + column];
#pragma omp task firstprivate(cell, width, steps) depend(in : cell[-width].value, cell[-1].value) depend(inout : cell->value)
            grid_task(cell, cell - width, cell - 1, steps);
        }
    }
}

static void make_chains(struct lattice *lattice) {
    struct cell *cells = lattice->cells;
    uint32_t steps = lattice->steps;
    for (long number = 0; number < lattice->columns; number++) {
        for (long row = 0; row < lattice->rows; row++) {
            struct cell *cell = &cells[row];
#pragma omp task firstprivate(cell, number, steps) depend(inout : cell->value)
            chain_task(cell, (uint64_t)number, steps);
        }
    }
}

static double run(struct lattice *lattice) {
    reset(lattice);
    double start = now();
#pragma omp parallel num_threads(lattice->workers)
#pragma omp single
    {
        if (lattice->chains) make_chains(lattice);
        else make_grid(lattice);
    }
    /* The end of `parallel` waits for all tasks. */
    return now() - start;
}

int main(int count, char **arguments) {
    struct lattice lattice = lattice_of(count, arguments);
    /* The first time is the warm-up. */
    run(&lattice);
    double all = run(&lattice);
    begin_line(&lattice);
    printf(" %.0f\n", all);
    return 0;
}
