package compose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Event is something that happened to a container of the project, in the engine's
// words: start, kill (the signal was sent), die, pause, unpause and more.
type Event struct {
	At      time.Time
	Service string
	Action  string
	Signal  syscall.Signal // of a kill
}

// Watch tells what happens to the project's containers, from a moment on and in
// order, until parent ends: then it returns nil. What the engine says and is not
// understood ends it, too.
func (p *Project) Watch(parent context.Context, from time.Time, tell func(Event)) error {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	since := fmt.Sprintf("%d.%09d", from.Unix(), from.Nanosecond())
	cmd := exec.CommandContext(ctx, "docker", "events", "--since", since, "--filter", "type=container",
		"--filter", "label="+labelProject+"="+p.cfg.Name, "--format", "{{json .}}")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as in docker
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	if err = readEvents(out, tell); err != nil {
		stop() // docker does not know that nobody reads any more
	}
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	if parent.Err() != nil {
		return nil
	}
	return fmt.Errorf("docker events ended: %w", err)
}

func readEvents(r io.Reader, tell func(Event)) error {
	all := json.NewDecoder(r)
	for {
		var raw struct {
			Action   string
			TimeNano int64
			Actor    struct{ Attributes map[string]string }
		}
		err := all.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what docker events says: %w", err)
		}
		e := Event{At: time.Unix(0, raw.TimeNano), Service: raw.Actor.Attributes[labelService], Action: raw.Action}
		if n, err := strconv.Atoi(raw.Actor.Attributes["signal"]); err == nil {
			e.Signal = syscall.Signal(n)
		}
		tell(e)
	}
}
