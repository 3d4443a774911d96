package app_test

import (
	"testing"

	"lksms/internal/platform/config"
)

func TestTheSecretsKeyIsStoredBesideAPrivateDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := config.SecretBox(config.Outbound{}, config.Database{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	encrypted, err := first.Encrypt("x", "here")
	if err != nil {
		t.Fatal(err)
	}
	again, err := config.SecretBox(config.Outbound{}, config.Database{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Decrypt(encrypted, "here"); got != "x" || err != nil {
		t.Errorf("opened %q, %v", got, err)
	}
	if _, err := again.Decrypt(encrypted, "there"); err == nil {
		t.Error("a secret can be opened under another name")
	}
}
