//go:build !linux

package sim_test

func wantLargePages() {}
