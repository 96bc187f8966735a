package containers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"conclave/testbed"
)

// size returns the nearest cluster for which the project has services.
func size(c testbed.Size) testbed.Size {
	c.Metas, c.Sessions, c.Datas = 3, max(2, min(c.Sessions, 3)), max(3, min(c.Datas, 4))
	return c
}

// traceMount is where the containers see the folder of the trace files.
const traceMount = "/trace"

// overlay writes the compose file that a scenario adds to the project's own, into
// dir, and returns its path. It has the scenario's sizes and times, and the folder
// into which the nodes write their trace events; none if traces is empty.
func overlay(dir string, c testbed.Size, traces string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if traces != "" {
		if err := os.MkdirAll(traces, 0o755); err != nil {
			return "", err
		}
		// The nodes run under another user id; the folder above this one is
		// closed.
		if err := os.Chmod(traces, 0o777); err != nil {
			return "", err
		}
	}
	type bind struct {
		Type   string `json:"type"`
		Source string `json:"source"`
		Target string `json:"target"`
	}
	type service struct {
		Environment map[string]string `json:"environment"`
		Volumes     []bind            `json:"volumes,omitempty"`
	}
	services := map[string]service{}
	for _, name := range c.Nodes() {
		role := testbed.RoleOf(name)
		prefix := "CONCLAVE_" + strings.ToUpper(role) + "_"
		environment := map[string]string{}
		var volumes []bind
		if traces != "" {
			environment[prefix+"TRACE"] = traceMount + "/" + name + ".trace"
			volumes = []bind{{"bind", traces, traceMount}}
		}
		if role == "meta" {
			environment[prefix+"SLOTS"] = fmt.Sprint(c.Slots)
			environment[prefix+"REPLICAS"] = fmt.Sprint(c.Replicas)
			environment[prefix+"LEASE"] = c.Lease.String()
			environment[prefix+"NODE_LEASE"] = c.Lease.String()
		}
		services[name] = service{environment, volumes}
	}
	text, err := json.MarshalIndent(map[string]any{"services": services}, "", "  ") // JSON is valid YAML
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "compose.yml")
	return file, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "$", "$$")), 0o644)
}
