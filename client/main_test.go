package client_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	_ "conclave/internal/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient{m}) }

// patient waits until the real connections of the example have ended.
type patient struct{ *testing.M }

func (m patient) Run() int {
	code := m.M.Run()
	for end := time.Now().Add(20 * time.Second); goleak.Find() != nil && time.Now().Before(end); {
	}
	return code
}
