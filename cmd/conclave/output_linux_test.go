package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// On a terminal a table is as wide as the terminal, here less wide than usualWidth.
func TestTable_FitsTheTerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	defer master.Close()
	fd := int(master.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	const width = usualWidth - 20
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: width}))
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "chaos", "list")
	cmd.Env = append(os.Environ(), asTool+"=1")
	cmd.Stdout = terminal
	require.NoError(t, cmd.Start())
	require.NoError(t, terminal.Close())
	var shown bytes.Buffer
	_, _ = io.Copy(&shown, master) // ends with an error when the tool has ended
	require.NoError(t, cmd.Wait())
	widest := 0
	for line := range strings.Lines(shown.String()) {
		widest = max(widest, utf8.RuneCountInString(strings.TrimRight(line, "\r\n")))
	}
	assert.LessOrEqual(t, widest, width)
	assert.Greater(t, widest, width-20)
}
