# SPDX-License-Identifier: MIT
# Short front of CMake and Ninja. What the words do is in CMakeLists.txt, tests/run and tools/.
PREFIX  ?= /usr/local
DESTDIR ?=
CMAKE   ?= cmake
SOURCES  = $(shell find src include cli tests bench -name '*.[ch]' 2>/dev/null)

# The shell reads them from the environment, so that they may contain blanks.
export PREFIX DESTDIR

.PHONY: all configure demo quick test test-slow test-slurm portable bench ablation acceptance trust docs fmt lint install uninstall deb clean

all: configure
	@$(CMAKE) --build build

configure:
	@tools/setup --check build
	@[ -f build/build.ninja ] || $(CMAKE) -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DATVI_TESTS=OFF

demo:
	@tools/setup build demo
	@$(MAKE) --no-print-directory all
	build/atvi fit examples/cold/cold.atvi --seed 1 --out build/demo --force

# What changed, in a minute.
quick:
	@tools/setup --check build
	@tests/quick

test:
	@tools/setup build test
	@tools/setup browser || echo 'The browser tests will be skipped.'
	@tests/run

# All seeds of the tests of whole fits; five minutes.
test-slow:
	@tools/setup build test
	@tests/run slow

# Workers under a Slurm of one node, which is started for it; ten minutes.
test-slurm: all
	@tests/cluster/slurm.sh

# Kernels, language and inference on another processor and with another C library.
portable:
	@tools/portable musl
	@tools/portable arm64

bench: configure
	@$(CMAKE) --build build --target all benches
	@for b in build/bench/bench_*; do [ ! -x $$b ] || $$b || exit 1; done

ablation: configure
	@$(CMAKE) --build build --target all ablation
	@build/bench/ablation

acceptance:
	@tools/setup build test
	@$(MAKE) --no-print-directory all
	@$(CMAKE) -S . -B build -DATVI_TESTS=ON >build/configure.log
	@$(CMAKE) --build build --target benches oracle_rotavirus
	@tools/acceptance.py

# Posteriors with known answers, ten seeds each, without options; hours. docs/trust.md has the table.
trust: all
	@tools/trust.py

docs: all
	@tools/words build/atvi md docs/cli

fmt:
	@clang-format -i $(SOURCES)

lint:
	@tools/setup lint
	@tools/lint

install: all
	@$(CMAKE) --install build --prefix "$$PREFIX"
	@cp build/install_manifest.txt build/installed.txt

# Removes what the last `make install` installed (build/installed.txt), given the same DESTDIR.
uninstall:
	@$(CMAKE) -P cmake/uninstall.cmake

# Debian packages in build/deb, accepted by lintian.
deb:
	@tools/setup build package
	@tools/deb

clean:
	rm -rf build build-asan build-clang build-fuzz build-arm64 build-musl
