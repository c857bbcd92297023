// Operating errors as values. A bug asserts (SWITCHML_ASSERT); an operating error is a Status, logged once, where it is
// decided what to do about it.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/assert.h"

namespace switchml {

enum class Code {
  kOk,
  kInvalidArgument,  // the caller's value is outside what is allowed
  kUnsupported,      // well-formed, but this build, kernel or switch cannot do it
  kTimeout,          // a deadline passed
  kUnavailable,      // a peer or the switch cannot be reached or refuses
  kMismatch,         // ranks disagree about a collective, or a result failed its witness
  kAborted,          // abort(), shutdown() or an earlier error ended the session
  kInternal,         // an error that should not happen, with the reason in the message
};

/// The name of a code as it appears in messages ("timeout", "unavailable", ...).
const char* to_string(Code code);

/// A code and a message for people. Copyable; an OK status carries no message.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  static Status ok_status() { return {}; }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  /// "timeout: no result for 30 s ..."
  std::string to_string() const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

/// A Status where there is no way to return one. The opening of a session catches it.
class StatusError : public std::runtime_error {
 public:
  explicit StatusError(Status status) : std::runtime_error(status.message()), status_(std::move(status)) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

/// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    SWITCHML_ASSERT(!status_.ok());
  }
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() {
    SWITCHML_ASSERT(ok());
    return *value_;
  }
  const T& value() const {
    SWITCHML_ASSERT(ok());
    return *value_;
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace switchml
