package main

import "path/filepath"

// living compiles the simulated cluster: with the trimmed database, and with the overlay by
// which one start has one state.
func living(out, work string) error {
	trimmed, overlay := filepath.Join(work, "trimmed"), filepath.Join(work, "onetrace")
	if _, err := goTool(nil, "run", "./testbed/playground/trim", "-out", trimmed); err != nil {
		return err
	}
	if _, err := goTool(nil, "run", "./testbed/simulated/onetrace", "-out", overlay); err != nil {
		return err
	}
	return program(out, work, "living", "./testbed/playground/living",
		"-modfile", filepath.Join(trimmed, "wasm.mod"), "-overlay", filepath.Join(overlay, "overlay.json"), "-tags", "onetrace", "-gcflags=all=-l") // without inlining it is a tenth smaller
}
