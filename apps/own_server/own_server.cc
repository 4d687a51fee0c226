#include "apps/own_server/own_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

namespace bulkhead::apps {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kReadyWithin = std::chrono::minutes(10);  // a great model is read from disk
constexpr milliseconds kEndWithin = std::chrono::seconds(30);
constexpr milliseconds kPoll{10};
constexpr off_t kFirstWords = 16384;
constexpr off_t kLastWords = 2000;

base::Error os_error(const std::string& what) {
  return base::Error{
      base::ErrorCode::kIo,
      fmt::format("{}: {}", what, std::error_code(errno, std::generic_category()).message()),
      {}};
}

// A folder of one's own, until the port is known.
class PrivateFolder {
 public:
  PrivateFolder() {
    std::string name = (fs::temp_directory_path() / "bulkhead-own-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~PrivateFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<std::string> arguments_of(const OwnServerOptions& options,
                                      const std::string& port_file) {
  std::vector<std::string> words = {"bulkhead", "serve", "--host",      "127.0.0.1",
                                    "--port",   "0",     "--port-file", port_file};
  words.insert(words.end(), options.words.begin(), options.words.end());
  return words;
}

// Of this process, without options for the server that are not this command's.
std::vector<std::string> environment_of(const OwnServerOptions& options) {
  std::vector<std::string> out;
  for (char** one = environ; *one != nullptr; ++one) {
    if (std::strncmp(*one, "BULKHEAD_", 9) != 0) out.emplace_back(*one);
  }
  out.insert(out.end(), options.environment.begin(), options.environment.end());
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// In the child: only what may be called between fork and exec.
[[noreturn]] void become(int log, pid_t parent, char* const* argv, char* const* environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::setpgid(0, 0);
  if (::getppid() != parent) ::_exit(127);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execve("/proc/self/exe", argv, environment);
  ::_exit(127);
}

std::string describe_status(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

std::string read_at(int file, off_t begin, off_t size) {
  std::string text(static_cast<size_t>(std::max<off_t>(size, 0)), '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), begin);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

}  // namespace

base::Result<std::unique_ptr<OwnServer>> OwnServer::start(const OwnServerOptions& options) {
  std::unique_ptr<OwnServer> server(new OwnServer);
  const PrivateFolder folder;
  if (folder.path().empty()) return os_error("no folder for temporary files can be made");
  const std::string port_file = folder.path() + "/port";
  BH_TRY(server->spawn(options, port_file));
  BH_TRY(server->wait_for_port(port_file));
  return server;
}

OwnServer::~OwnServer() {
  if (pid_ > 0 && ended({}).empty()) {
    ::kill(pid_, SIGTERM);
    if (ended(kEndWithin).empty()) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  if (log_ >= 0) ::close(log_);
}

base::Status OwnServer::spawn(const OwnServerOptions& options, const std::string& port_file) {
  log_ = ::memfd_create("bulkhead-own-log", MFD_CLOEXEC);
  if (log_ < 0) return os_error("no place for the server's output");
  std::vector<std::string> words = arguments_of(options, port_file);
  std::vector<std::string> settings = environment_of(options);
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> environment = pointers(settings);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) return os_error("no process can be started");
  if (pid_ == 0) become(log_, parent, argv.data(), environment.data());
  return {};
}

base::Status OwnServer::wait_for_port(const std::string& port_file) {
  const auto end = std::chrono::steady_clock::now() + kReadyWithin;
  while (std::chrono::steady_clock::now() < end) {
    std::ifstream file(port_file);
    if (unsigned port = 0; file >> port && port > 0 && port <= 65535) {
      port_ = static_cast<uint16_t>(port);
      return {};
    }
    if (const std::string how = ended(kPoll); !how.empty()) {
      return base::invalid_argument(
          "--model", fmt::format("the server did not start ({}). It said:\n{}", how, last_words()));
    }
  }
  return base::Error{base::ErrorCode::kUnavailable, "the server is not ready", {}};
}

std::string OwnServer::ended(milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (how_it_ended_.empty()) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      how_it_ended_ = describe_status(status);
    } else if (std::chrono::steady_clock::now() >= end) {
      return {};
    } else {
      std::this_thread::sleep_for(kPoll);
    }
  }
  return how_it_ended_;
}

std::string OwnServer::first_words() const {
  return read_at(log_, 0, std::min(::lseek(log_, 0, SEEK_END), kFirstWords));
}

std::string OwnServer::last_words() const {
  const off_t size = ::lseek(log_, 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - kLastWords);
  return read_at(log_, begin, size - begin);
}

}  // namespace bulkhead::apps
