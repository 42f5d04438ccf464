//! Where libnumalloc is: LIBNUMALLOC_DIR, or what pkg-config says, or where the linker looks anyway.
use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=LIBNUMALLOC_DIR");
    let named = env::var("LIBNUMALLOC_DIR").ok();
    let asked = || {
        let told = Command::new("pkg-config").args(["--variable=libdir", "numalloc"]).output().ok()?;
        String::from_utf8(told.stdout).ok().map(|text| text.trim().to_owned())
    };
    if let Some(folder) = named.or_else(asked).filter(|folder| !folder.is_empty()) {
        println!("cargo:rustc-link-search=native={folder}");
    }
    let kind = if env::var_os("CARGO_FEATURE_STATIC").is_some() { "static" } else { "dylib" };
    println!("cargo:rustc-link-lib={kind}=numalloc");
}
