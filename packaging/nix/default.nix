# nix-build packaging/nix: the library, the tools, headers and manuals, of this checkout.
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "numalloc";
  version = "0.1.0";
  src = pkgs.lib.cleanSource ../..;

  nativeBuildInputs = [ pkgs.cmake pkgs.ninja pkgs.pkg-config ];
  buildInputs = [ pkgs.elfutils pkgs.libiberty pkgs.zlib pkgs.python3 ];

  cmakeBuildType = "RelWithDebInfo";
  cmakeFlags = [ "-DNUMALLOC_TESTS=OFF" ];

  meta = {
    description = "A NUMA-aware drop-in malloc for Linux, with a heap profiler";
    license = pkgs.lib.licenses.mit;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "numalloc-run";
  };
}
