package main

import "path/filepath"

// living compiles the simulated cluster: with the trimmed database, and with the overlay by
// which one start has one state.
func living(out string) error {
	overlay := filepath.Join(work, "onetrace")
	if _, err := goTool(nil, "run", "./testbed/simulated/onetrace", "-out", overlay); err != nil {
		return err
	}
	return program(out, "living.wasm.br", "./testbed/playground/living",
		"-overlay", filepath.Join(overlay, "overlay.json"), "-tags", "onetrace", "-gcflags=all=-l") // without inlining it is a tenth smaller
}
