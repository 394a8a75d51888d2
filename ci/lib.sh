# Steps of a check: a heading, the command, its result; a summary at the end. Sourced by the scripts beside it.
#
#   step NAME COMMAND...        runs it, notes whether it succeeded, and goes on in both cases
#   skip NAME WHY               notes what was left out, and why
#   summary                     prints the list, what failed, then one line in the shape of cargo's; fails if a step failed
#
# A step's output is also kept in target/ci/, where `summary` counts the tests in it and finds those that failed.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-auto}"
# Symbols in a panic's backtrace; costs nothing when nothing panics.
export RUST_BACKTRACE="${RUST_BACKTRACE:-1}"

ci_target="${CARGO_TARGET_DIR:-target}"
ci_logs="$ci_target/ci/$(basename "$0" .sh)"
ci_host="$(rustc -vV | sed -n 's/^host: //p')"
ci_lines=()
ci_failed=0
ci_begin=$SECONDS
rm -rf "$ci_logs"
if [ ! -e "$ci_target" ]; then
    # Cargo marks a folder of build output so only if it makes it itself. Without the mark backups would keep it, and the tour would index it.
    mkdir -p "$ci_target"
    printf 'Signature: 8a477f597d28d172789f06886806bc55\n' >"$ci_target/CACHEDIR.TAG"
fi
mkdir -p "$ci_logs"

step() {
    local name="$1" began=$SECONDS status=0
    shift
    printf '\n==== %s: %s\n' "$name" "$*"
    "$@" 2>&1 | tee "$ci_logs/$name.log" || status=${PIPESTATUS[0]}
    if [ "$status" -eq 0 ]; then
        ci_lines+=("$(printf 'ok      %-22s %5d s' "$name" $((SECONDS - began)))")
    else
        ci_lines+=("$(printf 'FAILED  %-22s %5d s  (exit status %d)' "$name" $((SECONDS - began)) "$status")")
        ci_failed=$((ci_failed + 1))
    fi
}

skip() {
    printf '\n==== %s: skipped: %s\n' "$1" "$2"
    ci_lines+=("$(printf 'skipped %-22s          %s' "$1" "$2")")
}

# Adds up the `test result:` lines of all steps. A step that is itself such a script ends with the sum of its own: then only
# that one is counted.
ci_count() {
    shopt -s nullglob
    awk '
        FNR == 1 { passed += p; failed += f; ignored += i; p = f = i = 0 }
        /^==== summary/ { p = f = i = 0 }
        /^test result: / {
            for (n = 2; n <= NF; n++) {
                if ($n ~ /^passed/) p += $(n - 1)
                if ($n ~ /^failed/) f += $(n - 1)
                if ($n ~ /^ignored/) i += $(n - 1)
            }
        }
        END { printf "%d %d %d\n", passed + p, failed + f, ignored + i }
    ' /dev/null "$ci_logs"/*.log
}

# Names what failed in the logs of the steps, with the first words of why: of a long run often only its last lines are kept. What a script
# that ran as a step says at its own end is left out: the lines that it speaks of stand above it. At most a page.
ci_failures() {
    shopt -s nullglob
    awk '
        function say(line) { if (said++ < 60) print "  " substr(line, 1, 220) }
        # Of one test the last two panics: what came before may be what the test is about.
        function flush_panics(  n) {
            for (n = (panics > 2 ? panics - 1 : 1); n <= panics; n++) say(text[n])
            panics = why = 0
        }
        FNR == 1 {
            flush_panics()
            inner = listed = 0
            step = FILENAME
            sub(/.*\//, "", step)
            sub(/\.log$/, "", step)
        }
        /^==== summary/ { inner = 1 }
        inner { next }
        # cargo: which binary runs.
        /^ *(Running|Doc-tests) / { binary = $2 == "unittests" ? $3 " " $4 : $2 }
        /^test .* \.\.\. .*FAILED/ { say(step ": " binary ": " $0) }
        # The output of the failed tests, one after the other.
        /^failures:$/ { listed = 1 }
        /^test result:/ || /^---- .* ----$/ { flush_panics() }
        /^test result:/ { listed = 0 }
        listed && /^thread .* panicked at / { text[++panics] = "  " $0; why = 3; next }
        why > 0 && /^(stack backtrace:|note: |$)/ { why = 0 }
        why > 0 { text[panics] = text[panics] " | " $0; why-- }
        # Ends that no test harness lives to tell of: a watchdog, a crash, a report of a tool.
        /^HANG: |^watchdog: |\(signal: [0-9]+|has overflowed its stack|^proto-runtime: .* overflowed/ { say(step ": " $0) }
        /error: Undefined Behavior|ERROR: AddressSanitizer|WARNING: ThreadSanitizer|^==[0-9]+== +(Invalid|Conditional|Use of)/ { say(step ": " $0) }
        # A lint, a build, Miri.
        /^error(\[E[0-9]+\])?: / && !/^error: (test failed|doctest failed|[0-9]+ targets? failed)/ { say(step ": " $0) }
        END {
            flush_panics()
            if (said > 60) printf "  and %d lines more\n", said - 60
        }
    ' "$ci_logs"/*.log
}

summary() {
    local passed failed ignored result=ok
    read -r passed failed ignored < <(ci_count)
    if [ "$ci_failed" -gt 0 ]; then
        result=FAILED
        # A step that fails without a failed test (a lint, say) counts as one.
        [ "$failed" -gt 0 ] || failed=$ci_failed
    fi
    printf '\n==== summary of %s\n' "$(basename "$0")"
    printf '%s\n' "${ci_lines[@]}"
    if [ "$ci_failed" -gt 0 ]; then
        printf '\nwhat failed:\n'
        ci_failures
    fi
    printf '\ntest result: %s. %d passed; %d failed; %d ignored; 0 measured; 0 filtered out; finished in %d.00s\n' \
        "$result" "$passed" "$failed" "$ignored" $((SECONDS - ci_begin))
    [ "$result" = ok ]
}

# Runs every test binary under ci/watchdog.sh, which ends one that hangs and says where its threads are.
# Usage: guard SECONDS COMMAND... ; for the host's own target, or the one named in CI_TRIPLE.
guard() {
    local seconds="$1" triple="${CI_TRIPLE:-$ci_host}"
    shift
    local variable="CARGO_TARGET_$(printf '%s' "$triple" | tr 'a-z-' 'A-Z_')_RUNNER"
    # The outer limit is for what is not a test binary: a build, or a documentation test.
    env "$variable=$PWD/ci/watchdog.sh $seconds" timeout --kill-after=10 $((seconds * 4)) "$@"
}
