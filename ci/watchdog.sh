#!/usr/bin/env bash
# ci/watchdog.sh SECONDS PROGRAM [ARGUMENT...]: runs a program that may hang. After that many seconds it says what every
# thread of it is doing, and ends it and its children. Used as cargo's `runner`.
set -euo pipefail

limit="$1"
shift
pid=$$

report() {
    echo "watchdog: $1 still runs after $limit s; its threads:"
    for task in "/proc/$pid/task"/*; do
        printf '    %-8s %-16s %-10s %s\n' "${task##*/}" "$(cat "$task/comm")" \
            "$(sed -n 's/^State:\t//p' "$task/status")" "$(cat "$task/wchan" 2>/dev/null || true)"
    done
    # Only what runs or waits on a core is seen here; suspended virtual processors are on no thread's stack.
    if command -v gdb >/dev/null; then
        timeout 30 gdb -p "$pid" -batch -ex 'set pagination off' -ex 'thread apply all bt 16' 2>/dev/null |
            grep -E '^(Thread|#)' || true
    fi
    # Children too: some tests run themselves again to see how they die.
    for child in $(cat "/proc/$pid/task"/*/children 2>/dev/null); do
        [ "$child" = "$BASHPID" ] || kill -KILL "$child" 2>/dev/null || true
    done
    kill -KILL "$pid"
}

# The watcher is the child and the program the parent, by `exec`: so signals and the exit status are the program's own.
(
    for ((waited = 0; waited < limit; waited++)); do
        sleep 1
        # The program has ended.
        [ -d "/proc/$pid/task" ] || exit 0
    done
    report "$1" >&2
) </dev/null &
exec "$@"
