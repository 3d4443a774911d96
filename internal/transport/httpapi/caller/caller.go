// Package caller says what the caller of an operation may see and name.
package caller

import (
	"context"

	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/gate"
)

// Viewer is what the caller may see of tasks and notifications: those of its company unless it sees every one, and with the role
// submit only its own of them.
func Viewer(ctx context.Context) task.Viewer {
	seen := task.Viewer{CompanyID: OwnCompany(ctx)}
	if who := gate.Of(ctx).Caller.User; who.Role == access.RoleSubmit {
		seen.Owner = &who.Username
	}
	return seen
}

// OwnCompany is the only company of which the caller may see anything; nil if it sees every one.
func OwnCompany(ctx context.Context) *int64 {
	if who := gate.Of(ctx).Caller.User; !who.SeesAll {
		return &who.CompanyID
	}
	return nil
}

// Scope checks the companies, senders and apps that a request names against what its caller may name.
type Scope struct {
	directory *directory.Service
	senders   *sender.Service
}

// NewScope returns a Scope that finds companies in dir, and senders in senders.
func NewScope(dir *directory.Service, senders *sender.Service) *Scope { return &Scope{dir, senders} }

// OwnCompanyNo is the number of OwnCompany.
func (s *Scope) OwnCompanyNo(ctx context.Context) (*string, error) {
	own := OwnCompany(ctx)
	if own == nil {
		return nil, nil
	}
	no, err := s.directory.CompanyNo(ctx, *own)
	return &no, err
}

// CompanyID is the company that is named, or the caller's. Fault: auth.other_company.
func (s *Scope) CompanyID(ctx context.Context, no *string) (int64, error) {
	who := gate.Of(ctx).Caller.User
	if no == nil {
		return who.CompanyID, nil
	}
	if own := OwnCompany(ctx); own != nil {
		return *own, s.RequireCompany(ctx, no)
	}
	row, err := s.directory.GetCompany(ctx, *no)
	return row.ID, err
}

// RequireCompany refuses a company, if one is named, that is not the caller's, whether it is there or not.
func (s *Scope) RequireCompany(ctx context.Context, no *string) error {
	if no == nil {
		return nil
	}
	own, err := s.OwnCompanyNo(ctx)
	if err == nil && own != nil && *own != *no {
		err = fault.New(fault.Forbidden, fault.AuthOtherCompany)
	}
	return err
}

// RequireSender refuses a sender, if one is named, that the caller's company cannot reach. Fault: sender.not_found.
func (s *Scope) RequireSender(ctx context.Context, no *string) error {
	own := OwnCompany(ctx)
	if no == nil || own == nil {
		return nil
	}
	_, err := s.senders.Get(ctx, own, *no)
	return err
}

// RequireApp refuses an app that the caller is not bound to, and the number of a sender that the server drives.
func (s *Scope) RequireApp(ctx context.Context, appID string) error {
	if err := RequireBinding(ctx, appID); err != nil {
		return err
	}
	return s.senders.CheckApp(ctx, appID)
}

// RequireBinding refuses an app that the caller is not bound to.
func RequireBinding(ctx context.Context, appID string) error {
	if who := gate.Of(ctx).Caller.User; who.AppID != "" && who.AppID != appID {
		return fault.New(fault.Forbidden, fault.AuthOtherApp)
	}
	return nil
}

// SeesNumbers reports whether the caller may know the pace, the shares and the costs of senders: they are the operator's, and a caller
// that is bound to a company could conclude from them what other companies send.
func SeesNumbers(ctx context.Context) bool { return OwnCompany(ctx) == nil }
