package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"conclave/testbed"
)

// Comparison is read by the program peers, which has the clients of all registries.
type Comparison struct {
	Name, What string // of the measurement
	Registries []Registry
	N          int // rounds
	Calm       time.Duration
}

// Compared is written by the program peers.
type Compared struct {
	Figures []Figure
	Error   string
}

// beside takes a measurement of the cluster and the registries of r.Beside in turns.
func (r *run) beside(ctx context.Context, name, what string) error {
	own := Registry{Name: "conclave", Addresses: r.addresses("session"), Metas: r.addresses("meta"), Token: r.Token()}
	ps, err := r.Processes(ctx)
	if err = errors.Join(err, r.settled(ctx)); err != nil {
		return err
	}
	for _, p := range ps {
		if role := p.Role(); role == "data" || role == testbed.Database {
			own.PIDs = append(own.PIDs, p.PID)
		}
	}
	in, err := json.Marshal(Comparison{name, what, append([]Registry{own}, r.Beside...), max(r.N/3, 1), r.Calm})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, r.Peers)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), r.Progress
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", r.Peers, err)
	}
	var answer Compared
	if err := json.Unmarshal(out, &answer); err != nil {
		return err
	}
	*r.figures = append(*r.figures, answer.Figures...)
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}
