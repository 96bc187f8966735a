package containers

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

// Event is an event of a container of the project with the engine's action:
// start, kill (the signal was sent), die, pause, unpause and more.
type Event struct {
	At      time.Time
	Service string
	Action  string
	Signal  syscall.Signal // of a kill
	Code    int            // of a die: the exit code, or 128 and the signal that ended it
}

// Watch calls report for each event of the project's containers from a moment
// on, in order. It returns nil when parent ends, and an error when docker
// events ends or prints something that cannot be parsed.
func (p *Project) Watch(parent context.Context, from time.Time, report func(Event)) error {
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
	if err := cmd.Start(); err != nil && parent.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	if err = readEvents(out, report); err != nil {
		stop() // docker would block, because its output is not read any more
	}
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	if parent.Err() != nil {
		return nil
	}
	return fmt.Errorf("docker events ended: %w", err)
}

func readEvents(r io.Reader, report func(Event)) error {
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
			return fmt.Errorf("read the output of docker events: %w", err)
		}
		e := Event{At: time.Unix(0, raw.TimeNano), Service: raw.Actor.Attributes[labelService], Action: raw.Action}
		if n, err := strconv.Atoi(raw.Actor.Attributes["signal"]); err == nil {
			e.Signal = syscall.Signal(n)
		}
		if n, err := strconv.Atoi(raw.Actor.Attributes["exitCode"]); err == nil {
			e.Code = n
		}
		report(e)
	}
}
