package supervisor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"conclave/wire/rights"
)

// TokensPath returns the path of a cluster's own tokens, one for each right.
func TokensPath(dir string) string { return filepath.Join(dir, "tokens") }

// AppTokenPath returns the path of the file that has only the token with the right
// publish, for applications.
func AppTokenPath(dir string) string { return filepath.Join(dir, "app-token") }

// tokenArgs returns the flags with the tokens of a node, and writes the files that
// they name.
func tokenArgs(cfg Config) ([]string, error) {
	switch {
	case cfg.Token != "":
		path := filepath.Join(cfg.Dir, "token")
		return []string{"--token-file", path}, writeAside(path, []byte(cfg.Token+"\n"))
	case cfg.OwnTokens:
		return []string{"--token-file", TokensPath(cfg.Dir)}, drawTokens(cfg.Dir)
	}
	return nil, nil
}

// drawTokens writes the tokens of a new cluster. Those that a folder has stay as
// they are, so that applications keep theirs over a restart.
func drawTokens(dir string) error {
	tokens, err := rights.ReadFile(TokensPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		text := "# The tokens of this cluster, RIGHT NAME TOKEN: see SECURITY.md. A change is noticed within seconds.\n"
		for r := rights.Operator; r >= rights.Read; r-- {
			text += fmt.Sprintln(r, "local", rand.Text())
		}
		if err := writeAside(TokensPath(dir), []byte(text)); err != nil {
			return err
		}
		tokens, err = rights.ReadFile(TokensPath(dir))
	}
	if err != nil {
		return fmt.Errorf("read the tokens of the cluster: %w", err)
	}
	return writeAside(AppTokenPath(dir), []byte(tokens.Token(rights.Publish, "local")+"\n"))
}

// operatorToken returns the token with which this cluster is operated, "" if it has
// none. The file is read each time, because a user may change it.
func (c Config) operatorToken(dir string) string {
	if c.Token != "" || !c.OwnTokens {
		return c.Token
	}
	tokens, err := rights.ReadFile(TokensPath(dir))
	if err != nil {
		return "" // the nodes refuse the request, and that is the error
	}
	return tokens.Strongest()
}
