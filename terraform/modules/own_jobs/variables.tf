variable "name" {
  description = "Prefix of the job definitions, with _job_ behind it"
  type        = string
}

################################################################################
# Jobs
################################################################################

variable "own_jobs" {
  description = "Your own jobs, by name"
  type = map(object({
    image                    = optional(string)
    images                   = optional(object({ cpu = string, cuda = string }))
    command                  = optional(list(string), [])
    parameters               = optional(map(string), {})
    vcpus                    = optional(number)
    memory_mib               = optional(number)
    gpus                     = optional(number)
    environment              = optional(map(string), {})
    secrets                  = optional(map(string), {})
    secrets_kms_key_arns     = optional(set(string), [])
    mounts                   = optional(list(object({ source = string, path = string, read_only = optional(bool, true) })), [])
    timeout_seconds          = optional(number, 3600)
    attempts                 = optional(number, 3)
    axis                     = optional(object({ parameter = string, sizes = list(number) }))
    check                    = optional(string)
    output                   = optional(string)
    output_sha256            = optional(string)
    shell                    = optional(bool, true)
    user                     = optional(string)
    job_role_arn             = optional(string)
    readonly_root_filesystem = optional(bool, false)
    targets                  = optional(set(string), [])
    schedule                 = optional(string)
    commit                   = optional(string)
    branch                   = optional(string)
    label                    = optional(string)
  }))

  validation {
    condition     = length(var.own_jobs) > 0 && alltrue([for name in keys(var.own_jobs) : can(regex("^[a-z][a-z0-9-]{0,31}$", name))])
    error_message = "own_jobs names ${jsonencode(keys(var.own_jobs))}; name at least one, each in 1 to 32 lower-case letters, digits and hyphens, starting with a letter, such as \"thumbnails\"."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : (job.image == null) != (job.images == null)])
    error_message = "${join(", ", [for name, job in var.own_jobs : "${name} has ${job.image == null ? "neither image nor images" : "both image and images"}" if(job.image == null) == (job.images == null)])}; give image, or images = { cpu = \"…\", cuda = \"…\" } where each device has its own."
  }

  validation {
    condition     = alltrue(flatten([for job in values(var.own_jobs) : [for image in concat(job.image[*], job.images[*].cpu, job.images[*].cuda) : can(regex("^[^\\s]{1,255}$", image))]]))
    error_message = "${join(", ", flatten([for name, job in var.own_jobs : [for image in concat(job.image[*], job.images[*].cpu, job.images[*].cuda) : "the image of ${name} is \"${image}\"" if !can(regex("^[^\\s]{1,255}$", image))]]))}; give it as docker pull takes it, such as \"111122223333.dkr.ecr.us-east-1.amazonaws.com/thumbnails:1.4\"."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : length(job.command) > 0 || !job.shell])
    error_message = "command is missing in ${join(", ", [for name, job in var.own_jobs : name if length(job.command) == 0 && job.shell])}; give what the image runs, such as [\"python\", \"convert.py\"]. Or set shell = false: then the image's own command runs, and only times are measured and metrics on standard output read."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : job.axis == null ? true : can(regex("^[A-Za-z][A-Za-z0-9_-]{0,31}$", job.axis.parameter)) && anytrue([for word in job.command : contains(flatten(regexall("Ref::([A-Za-z0-9_-]+)", word)), job.axis.parameter)])])
    error_message = "${join(", ", [for name, job in var.own_jobs : "axis.parameter of ${name} is \"${job.axis.parameter}\" and its command ${jsonencode(job.command)}" if job.axis != null])}; write the parameter as Ref::${join(" or Ref::", [for job in values(var.own_jobs) : job.axis.parameter if job.axis != null])} in the command, where its size belongs, and name it with up to 32 letters, digits, _ and -, starting with a letter."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : job.axis == null ? true : !contains(["start", "metric", "unit", "better"], job.axis.parameter)])
    error_message = "axis.parameter is ${join(", ", [for name, job in var.own_jobs : "\"${job.axis.parameter}\" in ${name}" if job.axis != null])}; call it other than start, metric, unit and better, which results have already."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : job.axis == null ? true : length(job.axis.sizes) >= 1 && length(job.axis.sizes) <= 20 && length(distinct(job.axis.sizes)) == length(job.axis.sizes) && alltrue([for size in job.axis.sizes : size > 0 && size <= 1000000000000000000])])
    error_message = "${join(", ", [for name, job in var.own_jobs : "axis.sizes of ${name} is ${jsonencode(job.axis.sizes)}" if job.axis != null])}; give 1 to 20 different numbers above 0."
  }

  validation {
    condition     = alltrue(flatten([for job in values(var.own_jobs) : [for placeholder in flatten([for word in job.command : regexall("Ref::([A-Za-z0-9_-]+)", word)]) : contains(concat(keys(job.parameters), job.axis[*].parameter), placeholder)]]))
    error_message = "${join(", ", flatten([for name, job in var.own_jobs : [for placeholder in distinct(flatten([for word in job.command : regexall("Ref::([A-Za-z0-9_-]+)", word)])) : "Ref::${placeholder} in the command of ${name} has no value" if !contains(concat(keys(job.parameters), job.axis[*].parameter), placeholder)]]))}; give it one in parameters, or name it as axis.parameter."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : job.timeout_seconds >= 60 && floor(job.timeout_seconds) == job.timeout_seconds])
    error_message = "timeout_seconds is ${join(", ", [for name, job in var.own_jobs : "${job.timeout_seconds} for ${name}"])}; give whole seconds from 60, the least Batch takes."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : job.attempts >= 1 && job.attempts <= 10 && floor(job.attempts) == job.attempts])
    error_message = "attempts is ${join(", ", [for name, job in var.own_jobs : "${job.attempts} for ${name}"])}; Batch takes 1 to 10."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : length(setsubtract(job.targets, keys(local.alone))) == 0])
    error_message = "${join(", ", [for name, job in var.own_jobs : "targets of ${name} has ${jsonencode(setsubtract(job.targets, keys(local.alone)))}" if length(setsubtract(job.targets, keys(local.alone))) > 0])}; take some of ${jsonencode(keys(local.alone))}, or leave targets out for all of them. Targets whose jobs share an instance take none of your own jobs."
  }

  validation {
    condition     = length(var.own_jobs) == 0 || length(local.alone) > 0
    error_message = "${join(", ", keys(var.own_jobs))} would have no target; name a type in gpu_instance_types or cpu_instance_types. Targets whose jobs share an instance take none of your own jobs."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : alltrue([for amount in concat(job.vcpus[*], job.gpus[*]) : amount >= 1 && floor(amount) == amount]) && alltrue([for amount in job.memory_mib[*] : amount >= 4 && floor(amount) == amount])])
    error_message = "${join(", ", [for name, job in var.own_jobs : "${name} asks for ${jsonencode({ for key, amount in { vcpus = job.vcpus, memory_mib = job.memory_mib, gpus = job.gpus } : key => amount if amount != null })}"])}; give whole numbers, vcpus and gpus at least 1, memory_mib at least 4, or leave them out for what a job of the target has."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : job.gpus == null ? true : anytrue([for target in(length(job.targets) == 0 ? toset(keys(local.alone)) : job.targets) : try(local.alone[target].device, null) == "cuda"])])
    error_message = "${join(", ", [for name, job in var.own_jobs : "${name} asks for ${job.gpus} GPU(s)" if job.gpus != null])}, and none of its targets has one; leave gpus out, or add a target of gpu_instance_types. On CPU targets gpus counts for nothing."
  }

  validation {
    condition     = alltrue(flatten([for job in values(var.own_jobs) : [for variable in concat(keys(job.environment), keys(job.secrets)) : can(regex("^[A-Za-z_][A-Za-z0-9_]*$", variable)) && !can(regex("^(AWS_BATCH|BATCHMARK_)", variable))]]))
    error_message = "${join(", ", [for name, job in var.own_jobs : "${name} sets ${jsonencode(concat(keys(job.environment), keys(job.secrets)))}"])}; use letters, digits and _, not starting with a digit, and no name that begins with AWS_BATCH, which Batch keeps for itself, or BATCHMARK_, which Batchmark sets."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : length(setintersection(keys(job.environment), keys(job.secrets))) == 0])
    error_message = "${join(", ", [for name, job in var.own_jobs : "${name} sets ${jsonencode(setintersection(keys(job.environment), keys(job.secrets)))}" if length(setintersection(keys(job.environment), keys(job.secrets))) > 0])} in both environment and secrets; leave it out of one."
  }

  validation {
    condition     = alltrue(flatten([for job in values(var.own_jobs) : [for arn in values(job.secrets) : can(regex("^arn:aws[a-z-]*:(secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[^*?\\s]+|ssm:[a-z0-9-]+:[0-9]{12}:parameter/[^*?\\s]+)$", arn))]]))
    error_message = "${join(", ", flatten([for name, job in var.own_jobs : [for variable, arn in job.secrets : "${variable} of ${name}" if !can(regex("^arn:aws[a-z-]*:(secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[^*?\\s]+|ssm:[a-z0-9-]+:[0-9]{12}:parameter/[^*?\\s]+)$", arn))]]))} in secrets is no ARN (its value is not shown here); give that of a secret of Secrets Manager or of an SSM parameter, without wildcards, never the secret itself."
  }

  validation {
    condition     = alltrue(flatten([for job in values(var.own_jobs) : [for arn in job.secrets_kms_key_arns : length(job.secrets) > 0 && can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$", arn))]]))
    error_message = "secrets_kms_key_arns is ${join(", ", [for name, job in var.own_jobs : "${jsonencode(job.secrets_kms_key_arns)} for ${name}, which has ${length(job.secrets)} secret(s)" if length(job.secrets_kms_key_arns) > 0])}; give each key as \"arn:aws:kms:us-east-1:111122223333:key/ID\", no alias and no wildcard, and none to a job without secrets. Secrets below AWS's own keys need none."
  }

  validation {
    condition     = alltrue(flatten([for job in values(var.own_jobs) : [for mount in job.mounts : can(regex("^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$", mount.source)) && !can(regex("^/(bin|boot|dev|etc|home|lib|lib64|opt|proc|root|run|sbin|srv|sys|usr|var)(/|$)", mount.source)) && can(regex("^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$", mount.path)) && !can(regex("^/(dev|proc|sys)(/|$)", mount.path))]]))
    error_message = "${join(", ", flatten([for name, job in var.own_jobs : [for mount in job.mounts : "${name} mounts ${mount.source} at ${mount.path}"]]))}; mount folders such as /scratch or /mnt/data by their whole paths, without .. and none of the host's own below /bin, /boot, /dev, /etc, /home, /lib, /lib64, /opt, /proc, /root, /run, /sbin, /srv, /sys, /usr or /var, and put nothing at /dev, /proc or /sys."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : job.shell || (job.check == null && job.output == null)])
    error_message = "check or output is set with shell = false in ${join(", ", [for name, job in var.own_jobs : name if !job.shell && (job.check != null || job.output != null)])}; leave it out, or set shell = true: both are looked at in the image's /bin/sh, behind the command."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : job.output_sha256 == null ? true : job.output != null && job.axis == null && can(regex("^[0-9a-f]{64}$", job.output_sha256))])
    error_message = "${join(", ", [for name, job in var.own_jobs : "output_sha256 of ${name} is \"${job.output_sha256}\", with ${job.output == null ? "no output" : "output ${job.output}"}${job.axis == null ? "" : " and an axis"}" if job.output_sha256 != null])}; give 64 lower-case hex digits and the output that has them, and no axis: each size has an output of its own. Without output_sha256 all sides' outputs have to agree."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : job.job_role_arn == null ? true : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:role/[^*?\\s]+$", job.job_role_arn))])
    error_message = "job_role_arn is ${join(", ", [for name, job in var.own_jobs : "\"${job.job_role_arn}\" for ${name}" if job.job_role_arn != null])}; give the ARN of a role that ecs-tasks.amazonaws.com may assume, or leave it out for a role without any right."
  }

  validation {
    condition     = alltrue([for job in values(var.own_jobs) : job.schedule == null ? true : can(regex("^@(hourly|daily|weekly|monthly|quarterly|yearly)$", job.schedule)) || length(split(" ", job.schedule)) == 5 && alltrue([for index, field in split(" ", job.schedule) : can(regex(local.cron[index], field))])])
    error_message = "schedule is ${join(", ", [for name, job in var.own_jobs : "${jsonencode(job.schedule)} for ${name}" if job.schedule != null])}; give @hourly, @daily, @weekly, @monthly, @quarterly or @yearly, or the five fields of a cron line in UTC, minute, hour, day of the month, month and day of the week, such as \"0 3 * * mon\" for Mondays at 3:00. Leave it out for no schedule."
  }

  validation {
    condition     = alltrue(flatten([for job in values(var.own_jobs) : [for text in concat(job.commit[*], job.branch[*], job.label[*]) : can(regex("^[^\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]{1,300}$", text))]]))
    error_message = "${join(", ", flatten([for name, job in var.own_jobs : [for field in ["commit", "branch", "label"] : "${field} of ${name} is ${jsonencode(job[field])}" if job[field] != null]]))}; give 1 to 300 characters in one line, such as commit = \"3f2a91c\", or leave it out."
  }
}

# A typed object drops unknown attributes silently, so these are looked for in what was written.
variable "own_jobs_given" {
  description = "own_jobs as written, to refuse unknown fields"
  type        = any
  default     = {}

  validation {
    condition     = alltrue(flatten([for job in values(var.own_jobs_given) : concat([length(setsubtract(keys(job), local.fields)) == 0], [for field, known in local.objects : [for one in flatten([try(job[field], [])]) : length(setsubtract(try(keys(one), []), known)) == 0]])]))
    error_message = "own_jobs has ${join(", ", flatten([for name, job in var.own_jobs_given : concat([for key in setsubtract(keys(job), local.fields) : replace("${key} in ${name} (${join(" or ", [for field in local.fields : field if startswith(field, substr(key, 0, 3))])}?)", " (?)", "")], [for field, known in local.objects : [for one in flatten([try(job[field], [])]) : [for key in setsubtract(try(keys(one), []), known) : "${field}.${key} in ${name}"]]])]))}, which no job has; correct the name. The fields of a job are ${join(", ", local.fields)}; ${join(", ", [for field, known in local.objects : "${field} takes ${join(" and ", known)}"])}."
  }
}

################################################################################
# Where they run
################################################################################

variable "targets" {
  description = "Each target's most resources and sharing"
  type = map(object({
    device     = string
    vcpus      = number
    memory_mib = number
    gpus       = number
    sharing    = optional(string)
  }))
}

variable "log_group_name" {
  description = "Log group of all jobs"
  type        = string
}

variable "retry_rules" {
  description = "When jobs are retried; the first match counts"
  type        = list(object({ action = string, on_reason = string, on_status_reason = string }))
}

################################################################################
# Roles
################################################################################

variable "pull_and_log_policy" {
  description = "What an execution role needs, as JSON"
  type        = string
}

variable "task_trust_policy" {
  description = "Who may act as these roles, as JSON"
  type        = string
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of all roles"
  type        = string
  default     = null
}

variable "iam_path" {
  description = "IAM path"
  type        = string
  default     = "/"
}

# Validations look at these.
locals {
  # Where jobs share an instance, none is measured as it would run alone.
  alone = { for name, target in var.targets : name => target if target.sharing == null }

  # The names of a job's fields, and what those have that are objects. A copy: where a misspelt field is one that is
  # needed, var.own_jobs is refused itself, and a validation that looked at it would name no other until it is mended.
  fields  = ["attempts", "axis", "branch", "check", "command", "commit", "environment", "gpus", "image", "images", "job_role_arn", "label", "memory_mib", "mounts", "output", "output_sha256", "parameters", "readonly_root_filesystem", "schedule", "secrets", "secrets_kms_key_arns", "shell", "targets", "timeout_seconds", "user", "vcpus"]
  objects = { axis = ["parameter", "sizes"], images = ["cpu", "cuda"], mounts = ["path", "read_only", "source"] }

  # What each field of a cron line may be, up to the day of the week. Airflow takes more, and has the last word.
  cron = [for part in [
    for value in ["[0-5]?[0-9]", "[01]?[0-9]|2[0-3]", "0?[1-9]|[12][0-9]|3[01]", "0?[1-9]|1[0-2]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec", "[0-7]|sun|mon|tue|wed|thu|fri|sat"] :
    "(\\*|(${value})(-(${value}))?)(/[1-9][0-9]?)?"
  ] : "^(?i:${part}(,${part})*)$"]
}
