package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// secretsCommand draws what the containers of one machine share with each other
// and with nobody else. It runs in a container itself, before all others.
func (a *app) secretsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "secrets DIR", Hidden: true, Args: want("DIR"),
		Short: "Draw the passwords and the token of a cluster in containers, unless they are there",
		RunE: func(_ *cobra.Command, args []string) error {
			made, err := drawSecrets(args[0])
			if err != nil {
				return err
			}
			for _, name := range made {
				fmt.Fprintln(a.stdout, "drew", name)
			}
			return nil
		},
	}
}

// The files, by who is shown them: each folder is mounted where it is needed.
const (
	tokenSecret    = "cluster/token"
	rootSecret     = "db/root-password"
	passwordSecret = "db/password"
	dsnSecret      = "meta/dsn"
)

// drawSecrets makes the files that are missing, and returns their names. A file
// that is there is never touched: the database remembers what it was made with.
//
// The files can be read by everyone who gets to them, since the processes in the
// containers are other users than whoever owns the folder; the folder itself is
// closed to everyone else. All belong to the folder's owner, so that he can
// remove what a container made for him.
func drawSecrets(dir string) (made []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	draw := func(name, text string) error {
		path := filepath.Join(dir, name)
		folder := filepath.Dir(path)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(folder, 0o755); err != nil { // whatever the umask is
			return err
		}
		fresh, err := writeSecret(path, text)
		if err != nil {
			return err
		}
		if fresh {
			made = append(made, name)
		}
		return errors.Join(giveTo(info, folder), giveTo(info, path))
	}
	for _, name := range []string{tokenSecret, rootSecret, passwordSecret} {
		if err := draw(name, rand.Text()); err != nil {
			return made, err
		}
	}
	password, err := os.ReadFile(filepath.Join(dir, passwordSecret))
	if err != nil {
		return made, err
	}
	return made, draw(dsnSecret, fmt.Sprintf("conclave:%s@tcp(db:3306)/conclave", strings.TrimSpace(string(password))))
}

// writeSecret makes a file with its whole text, or not at all: whoever is stopped
// half way leaves nothing that the next one would take for a secret. It has no
// newline, because not everybody who reads it cuts one off.
func writeSecret(path, text string) (fresh bool, err error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(0o444), f.Sync(), f.Close()); err != nil {
		return false, err
	}
	// A link, and not a rename: it fails when somebody else was quicker.
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err == nil, err
	}
	return false, nil
}

// giveTo makes the owner of the folder that of a file, where the one who runs this
// may and the system knows owners.
func giveTo(folder fs.FileInfo, path string) error {
	owner, ok := folder.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 || owner.Uid == 0 {
		return nil
	}
	return os.Chown(path, int(owner.Uid), int(owner.Gid))
}
