#!/usr/bin/env bash
# ci/thread_locals.sh TARGET_DIR: shows by the assembly of proto-core, built with the feature `migrate`, that its thread-locals which
# virtual processors use are reached through functions that are never inlined, and that nobody else has their address. Else the
# compiler could keep the address of one across a switch of stacks, after which the virtual processor may be on another OS thread.
set -euo pipefail
cd "$(dirname "$0")/.."

target="$1"
# Without this an unchanged crate would not be compiled, and leave no assembly; and one of an older build could be read.
cargo clean -q --release -p proto-core --target-dir "$target"
cargo rustc -q --release -p proto-core --lib --features migrate --target-dir "$target" -- --emit asm -C debuginfo=0

# Matched in the manglings of symbols, which all contain "length, name" of each part of a path.
awk '
    BEGIN {
        allowed["3ctx3CTX"] = "3ctx9installed|3ctx7install"
        allowed["3ctx4CORE"] = "3ctx4core|3ctx7install"
        allowed["6panics19UNWINDING_ELSEWHERE"] = "6panics14unwinding_slow|6panics22switch_while_unwinding"
    }
    /^_[A-Za-z0-9_.$]+:/ { current = $1 }
    # An instruction, not a directive.
    /^\t[a-z]/ {
        for (name in allowed) if (index($0, name)) {
            if (current ~ allowed[name]) found[name]++
            else { print "error: the thread-local " name " is used in " current " " $0; wrong = 1 }
        }
    }
    END {
        # Else this would look for names that are gone.
        for (name in allowed) if (!found[name]) { print "error: the thread-local " name " was not found"; wrong = 1 }
        exit wrong
    }
' "$target"/release/deps/proto_core-*.s
echo "thread-locals: each is used by its accessors only"
