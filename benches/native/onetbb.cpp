/* Dataflow by oneTBB's flow graph: a `continue_node` for each task, edges between them.
 *
 * Prints, after the checksum and the work of a task, nanoseconds: of making, running and freeing the graph; of the
 * running alone; and of running it once more, the mean of ROUNDS (0 without any).
 */

#include "lattice.h"

#include <memory>
#include <vector>

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>

using namespace tbb::flow;
using Node = continue_node<continue_msg>;

struct Graph {
    graph all;
    broadcast_node<continue_msg> start{all};
    std::vector<std::unique_ptr<Node>> nodes;

    explicit Graph(const lattice &lattice) {
        nodes.reserve(lattice.rows * lattice.columns);
        if (lattice.chains) make_chains(lattice);
        else make_grid(lattice);
    }

    void make_grid(const lattice &lattice) {
        long width = lattice.columns + 1;
        uint32_t steps = lattice.steps;
        for (long row = 1; row <= lattice.rows; row++) {
            for (long column = 1; column <= lattice.columns; column++) {
                cell *cell = &lattice.cells[row * width + column];
                auto body = [=](const continue_msg &) { grid_task(cell, cell - width, cell - 1, steps); };
                nodes.push_back(std::make_unique<Node>(all, body));
                Node &node = *nodes.back();
                if (row > 1) make_edge(*nodes[nodes.size() - 1 - lattice.columns], node);
                if (column > 1) make_edge(*nodes[nodes.size() - 2], node);
                if (row == 1 && column == 1) make_edge(start, node);
            }
        }
    }

    void make_chains(const lattice &lattice) {
        uint32_t steps = lattice.steps;
        for (long number = 0; number < lattice.columns; number++) {
            for (long row = 0; row < lattice.rows; row++) {
                cell *cell = &lattice.cells[row];
                auto body = [=](const continue_msg &) { chain_task(cell, (uint64_t)number, steps); };
                nodes.push_back(std::make_unique<Node>(all, body));
                Node &node = *nodes.back();
                if (number > 0) make_edge(*nodes[nodes.size() - 1 - lattice.rows], node);
                else make_edge(start, node);
            }
        }
    }

    double run() {
        double begin = now();
        start.try_put(continue_msg());
        all.wait_for_all();
        return now() - begin;
    }
};

struct Times {
    double all, run, again;
};

static Times measure(lattice &lattice) {
    reset(&lattice);
    Times times{0, 0, 0};
    double begin = now();
    {
        Graph graph(lattice);
        times.run = graph.run();
        double again = now();
        for (int round = 0; round < lattice.rounds; round++) graph.run();
        times.again = now() - again;
    }
    times.all = now() - begin - times.again;
    if (lattice.rounds) times.again /= lattice.rounds;
    return times;
}

int main(int count, char **arguments) {
    lattice lattice = lattice_of(count, arguments);
    tbb::global_control workers(tbb::global_control::max_allowed_parallelism, lattice.workers);
    /* The first time is the warm-up. */
    measure(lattice);
    Times times = measure(lattice);
    begin_line(&lattice);
    printf(" %.0f %.0f %.0f\n", times.all, times.run, times.again);
    return 0;
}
