//! Looks for libhwloc, so that the crate builds with or without it.
//!
//! Where it is found, `cfg(hwloc_present)` is set and the library linked; otherwise the crate reads sysfs. `PROTO_HWLOC=0`
//! forces that. The build script of `hwlocality-sys`, which fails where the library is missing, is replaced by the
//! entries in the workspace's `.cargo/config.toml`.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rustc-check-cfg=cfg(hwloc_present)");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PROTO_HWLOC");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_LIBDIR");
    let wanted = env::var_os("CARGO_FEATURE_HWLOC").is_some()
        && env::var_os("PROTO_HWLOC").is_none_or(|value| value != "0")
        // Neither Miri nor another machine's linker can call the library that is here.
        && env::var_os("CARGO_CFG_MIRI").is_none()
        && env::var_os("HOST") == env::var_os("TARGET");
    if wanted && is_installed() {
        println!("cargo:rustc-cfg=hwloc_present");
        println!("cargo:rustc-link-lib=hwloc");
    }
}

/// hwlocality speaks version 2 of the interface and rejects 3.
fn is_installed() -> bool {
    Command::new("pkg-config")
        .args(["--exists", "hwloc >= 2.0 hwloc < 3.0"])
        .status()
        .is_ok_and(|status| status.success())
}
