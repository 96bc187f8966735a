//go:build !linux

package simulated_test

func wantLargePages() {}
